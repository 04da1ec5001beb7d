/* Schema version 2: how predictions compare with measured runs. Text of a released version never
 * changes: a later version is a new file with the statements that lead there. 9e999 is SQLite's way
 * to write infinity. */
#include "db/schema-private.h"

/* clang-format off */
const char db_schema_v2_sql[] =
"CREATE TABLE validation (\n"
"  run_id INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,\n"
"  calibration_id INTEGER NOT NULL REFERENCES calibration,\n"
"  row_id TEXT NOT NULL CHECK (row_id <> ''),\n"
"  family TEXT,\n"
"  use REAL NOT NULL CHECK (use >= 0 AND use <= 1),\n"
"  machine TEXT NOT NULL CHECK (machine <> ''),\n"
"  profile TEXT NOT NULL CHECK (profile <> ''),\n"
"  layout_text TEXT NOT NULL,\n"
"  predicted_s REAL NOT NULL CHECK (predicted_s > 0 AND predicted_s < 9e999),\n"
"  predicted_s_p10 REAL NOT NULL CHECK (predicted_s_p10 > 0 AND predicted_s_p10 < 9e999),\n"
"  predicted_s_p90 REAL NOT NULL\n"
"    CHECK (predicted_s_p90 >= predicted_s_p10 AND predicted_s_p90 < 9e999),\n"
"  measured_s REAL CHECK (measured_s > 0 AND measured_s < 9e999),\n"
"  mem_kind TEXT CHECK (mem_kind IN ('allocated', 'reserved', 'driver', 'unstated')),\n"
"  predicted_bytes INTEGER CHECK (predicted_bytes > 0),\n"
"  measured_bytes INTEGER CHECK (measured_bytes > 0),\n"
"  oom_risk REAL NOT NULL CHECK (oom_risk >= 0 AND oom_risk <= 1),\n"
"  ran INTEGER NOT NULL CHECK (ran IN (0, 1)),\n"
"  position INTEGER NOT NULL CHECK (position >= 0),\n"
"  PRIMARY KEY (run_id, position)\n"
") STRICT, WITHOUT ROWID;\n"
/* The two middle ranks of n are (n + 1) / 2 and (n + 2) / 2, rounded down. */
"CREATE VIEW accuracy AS\n"
"  WITH error AS (\n"
"    SELECT run_id, calibration_id, family, predicted_s / measured_s - 1 AS err,\n"
"      predicted_s_p10 <= measured_s AND measured_s <= predicted_s_p90 AS inside,\n"
"      count(*) OVER (PARTITION BY run_id, family) AS n,\n"
"      row_number() OVER (PARTITION BY run_id, family\n"
"        ORDER BY abs(predicted_s / measured_s - 1)) AS nth\n"
"    FROM validation WHERE use >= 1 AND measured_s IS NOT NULL)\n"
"  SELECT e.run_id, c.name AS calibration, e.family, count(*) AS row_count,\n"
"    avg(CASE WHEN e.nth IN ((e.n + 1) / 2, (e.n + 2) / 2) THEN abs(e.err) END)\n"
"      AS median_abs_err,\n"
"    avg(abs(e.err)) AS mean_abs_err, avg(e.err) AS mean_err, avg(e.inside) AS coverage_80\n"
"  FROM error e JOIN calibration c USING (calibration_id)\n"
"  GROUP BY e.run_id, e.family;\n";
/* clang-format on */
