"""Product tables and visitors' attributes -> features, by a declaration that a person can read."""

from quietshelf.tables.columns import Column, category, embedding, flag, ignore, log_number, number
from quietshelf.tables.inference import infer
from quietshelf.tables.products import Products
from quietshelf.tables.reading import read_table
from quietshelf.tables.records import service_items
from quietshelf.tables.schema import Schema, UnknownLevel, as_schema

__all__ = [
    "Column",
    "Products",
    "Schema",
    "UnknownLevel",
    "as_schema",
    "category",
    "embedding",
    "flag",
    "ignore",
    "infer",
    "log_number",
    "number",
    "read_table",
    "service_items",
]
