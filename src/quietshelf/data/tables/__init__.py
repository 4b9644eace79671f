"""Product tables and visitor attributes -> features, by a declaration that people can read."""

from quietshelf.data.tables.columns import Column, category, embedding, flag, ignore, log_number, number
from quietshelf.data.tables.inference import infer
from quietshelf.data.tables.products import Products
from quietshelf.data.tables.reading import read_table
from quietshelf.data.tables.records import service_items
from quietshelf.data.tables.schema import Schema, UnknownLevel, as_schema

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
