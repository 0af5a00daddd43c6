"""Drafts a model directory from a lender's records and model file.

`draft` puts it together: `records` reads the file of records, `columns` says what a column holds, `artifacts` what the
model's own file says (one module per format), `matching` which columns of the model come from which of the records,
`features` what the manifest says of each, `evidence` tries what no file says against the lender's scores or outcomes.
"""
