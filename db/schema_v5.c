/* Schema version 5: the search points of a run, so that one that was stopped can go on. Text of a
 * released version never changes: a later version is a new file with the statements that lead
 * there. */
#include "db/schema-private.h"

/* clang-format off */
const char db_schema_v5_sql[] =
"CREATE TABLE search_process (\n"
"  run_id INTEGER PRIMARY KEY REFERENCES run ON DELETE CASCADE,\n"
"  host TEXT NOT NULL CHECK (host <> ''),\n"
"  pid INTEGER NOT NULL CHECK (pid > 0)\n"
") STRICT;\n"
"CREATE TABLE search_point (\n"
"  run_id INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,\n"
"  point_hash TEXT NOT NULL CHECK (point_hash <> ''),\n"
"  answer TEXT NOT NULL CHECK (answer <> ''),\n"
"  first_plan_id INTEGER,\n"
"  plan_count INTEGER NOT NULL CHECK (plan_count >= 0),\n"
"  PRIMARY KEY (run_id, point_hash),\n"
"  CHECK ((first_plan_id IS NULL) = (plan_count = 0))\n"
") STRICT, WITHOUT ROWID;\n";
/* clang-format on */
