"""The letter to an applicant: the decision, its reasons, the ways to a yes, and what is promised."""
