"""The companion package of the Serving Reliability Workbook.

Importing it loads neither torch nor a web framework: import the subpackage you need.
"""

__version__ = "0.1.0"
