#!/bin/sh
# Includes may only go along the arrows of the architecture:
#   base <- model, topo <- costmodel <- sim;  model, topo, costmodel <- exec;  base <- db;
#   app on all of them;  cli on app (and base).
# sqlite3.h belongs to db alone, CUDA, NCCL and MPI headers to exec.
set -eu
cd "$(dirname "$0")/.."
status=0

allow() { # folder, folders it may include beside itself
  folder=$1; shift
  allowed="$folder $*"
  for file in "$folder"/*.c "$folder"/*.h "$folder"/*/*.c "$folder"/*/*.h "$folder"/*/*.cu; do
    [ -f "$file" ] || continue
    for seen in $(sed -n 's,^ *# *include *"\([a-z]*\)/.*,\1,p' "$file" | sort -u); do
      case " $allowed " in
        *" $seen "*) ;;
        *) echo "$file: includes $seen/, which $folder/ must not know" >&2; status=1 ;;
      esac
    done
  done
}
allow base catalog
allow model base
allow topo base
allow costmodel base model topo
allow sim base model topo costmodel
allow exec base model topo costmodel
allow db base
allow app base model topo costmodel sim exec db
allow cli base app

only() { # header pattern, folder that may include it
  found=$(grep -rlE "^ *# *include *<($1)" --include='*.c' --include='*.h' --include='*.cu' \
    base model topo costmodel sim exec db app cli 2>/dev/null | grep -v "^$2/" || true)
  [ -z "$found" ] || { echo "$found: only $2/ may include <$1>" >&2; status=1; }
}
only 'sqlite3\.h' db
only 'cuda|nccl|mpi\.h|cublas' exec
exit $status
