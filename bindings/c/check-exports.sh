#!/bin/sh
# check-exports.sh HEADER LIBRARY: fails unless the functions that the header
# declares are what the library shows.
set -eu
header=$1 library=$2

declared=$(sed -nE 's/^[a-z0-9_]+ (mopslock_[a-z0-9_]+)\(.*/\1/p' "$header" | sort)
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
