#!/bin/sh
# check-exports.sh HEADER LIBRARY [UNTIL]: fails unless the functions that the
# header declares, up to the line that has UNTIL, are what the library shows.
set -eu
header=$1 library=$2 until=${3:-}

declared=$(awk -v until="$until" 'until != "" && index($0, until) { exit } { print }' "$header" |
	sed -nE 's/^[a-z0-9_]+ (mopslock_[a-z0-9_]+)\(.*/\1/p' | sort)
case $library in
*.a) dynamic= ;;
*) dynamic=-D ;;
esac
shown=$(nm $dynamic --extern-only --defined-only "$library" | awk 'NF == 3 { print $3 }' | sort)

if [ -z "$declared" ] || [ "$declared" != "$shown" ]; then
	echo "$library does not show what $header declares; only one of them has:" >&2
	printf '%s\n' "$declared" "$shown" | sort | uniq -u >&2
	exit 1
fi
