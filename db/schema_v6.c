/* Schema version 6: which process works on a run, told apart from others of the same number. Text of
 * a released version never changes: a later version is a new file with the statements that lead
 * there. */
#include "db/schema-private.h"

/* clang-format off */
const char db_schema_v6_sql[] =
"ALTER TABLE search_process RENAME TO run_process;\n"
"ALTER TABLE run_process ADD COLUMN pid_space TEXT;\n"
"ALTER TABLE run_process ADD COLUMN start_ticks INTEGER CHECK (start_ticks > 0);\n"
"INSERT INTO run_process (run_id, host, pid)\n"
"  SELECT run_id, host, pid FROM exec_run UNION ALL SELECT run_id, host, pid FROM calibration_run;\n";
/* clang-format on */
