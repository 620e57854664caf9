#!/bin/sh
# check-exports.sh HEADER LIBRARY: fails unless the functions that the header
# declares are what the library shows. Without a LIBRARY it prints these functions.
set -eu
header=$1 library=${2-}

declared=$(sed -nE 's/^[a-z0-9_]+ (mopslock_[a-z0-9_]+)\(.*/\1/p' "$header" | sort)
dynamic= prefix=
case $library in
'') echo "$declared" && exit ;;
*.dll) exit ;; # its linker has that list, and fails for what it does not find
*.dylib) prefix=_ ;; # before each name of C
*.so) dynamic=-D ;;
esac
shown=$(nm $dynamic --extern-only --defined-only "$library" | awk 'NF == 3 { print $3 }' | sed "s/^$prefix//" | sort)

if [ -z "$declared" ] || [ "$declared" != "$shown" ]; then
	echo "$library does not show what $header declares; only one of them has:" >&2
	printf '%s\n' "$declared" "$shown" | sort | uniq -u >&2
	exit 1
fi
