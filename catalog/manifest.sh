#!/bin/sh
# Prints the GResource manifest of every catalog file, in a stable order. Not of validation/: measured
# figures are read from their files, so that the program stays small.
# usage: manifest.sh CATALOG_DIR
cd "$1" || exit 1
printf '<?xml version="1.0" encoding="UTF-8"?>\n<gresources>\n  <gresource prefix="/plait/catalog">\n'
find . -mindepth 2 -type f ! -path './validation/*' \( -name '*.ini' -o -name '*.csv' \) | sed 's,^\./,,' | LC_ALL=C sort |
  sed 's,.*,    <file>&</file>,'
printf '  </gresource>\n</gresources>\n'
