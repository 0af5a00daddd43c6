"""Feature schema, and the spaces a record lives in.

* *raw row*: one number per feature, shape ``(p,)``: the value itself for continuous and integer features, the index
  into ``categories`` for ordinal, categorical and binary ones. A JSON record and its raw row determine each other.
* *encoded point*: what methods compute with, shape ``(d,)``: ``(raw - center) / scale`` for numbers, ordinals and
  binaries, one column per category for categorical features, and one for each state of a number, such as missing.

What the model itself takes is a third matter: `ModelColumns` translates raw rows and encoded points to it.

Arrays are encoded unless their name ends in ``_raw``; rows are points.
"""

from app.recourse.features.cells import (
    ABSENT,
    ABSENT_NUMBERS,
    DecimalMark,
    Written,
    lines_and_delimiter,
    number_of_text,
    plain_numbers,
    written,
)
from app.recourse.features.encoding import Encoding, Spread, fit_encoding, fit_spread
from app.recourse.features.feature import (
    NUMBERS,
    Better,
    Change,
    Feature,
    FeatureType,
    RawValue,
    Record,
    parse_column,
    read_cell,
)
from app.recourse.features.feature_options import (
    LARGEST,
    MISSING,
    Advice,
    MaxChange,
    Missing,
    MovesWithTime,
    ReasonWords,
    Sentence,
    Table,
    Takes,
    Words,
)
from app.recourse.features.model_columns import ModelColumns, ModelSpace
from app.recourse.features.schema_faults import own_faults, schema_faults
from app.recourse.features.space import FeatureSpace, escape
