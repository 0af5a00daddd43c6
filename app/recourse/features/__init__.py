"""Feature schema, and the two spaces a record lives in.

* *raw row*: one number per feature, shape ``(p,)``: the value itself for continuous and integer features, the index
  into ``categories`` for ordinal, categorical and binary ones. A JSON record and its raw row determine each other.
* *encoded point*: what models and methods compute with, shape ``(d,)``: ``(raw - center) / scale`` for numbers,
  ordinals and binaries, one column per category for categorical features.

Arrays are encoded unless their name ends in ``_raw``; rows are points.
"""

from app.recourse.features.feature import (
    LARGEST,
    MISSING,
    NUMBERS,
    Change,
    Feature,
    FeatureType,
    Missing,
    RawValue,
    Record,
    parse_column,
    schema_faults,
)
from app.recourse.features.feature_options import Advice, MaxChange, MovesWithTime, Table, Takes
from app.recourse.features.space import Encoding, FeatureSpace, escape, fit_encoding

__all__ = [
    "LARGEST",
    "MISSING",
    "NUMBERS",
    "Advice",
    "Change",
    "Encoding",
    "Feature",
    "FeatureSpace",
    "FeatureType",
    "MaxChange",
    "Missing",
    "MovesWithTime",
    "RawValue",
    "Record",
    "Table",
    "Takes",
    "escape",
    "fit_encoding",
    "parse_column",
    "schema_faults",
]
