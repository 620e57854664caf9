#!/bin/sh
# The launcher of `mopslock-host invoke NAME --on-loss continue -- ./launcher.sh job.yaml`: it makes the Job that does
# the work under our lease, and waits for the Job's end. `invoke` itself sees whether there is a result then.
set -eu

manifest=$1
job=remote-$MOPSLOCK_HOLDER

# filled TEXT prints TEXT as a replacement for sed, which puts it between the single quotes of a YAML value in which
# Kubernetes expands $(VARIABLES).
filled() {
	printf '%s' "$1" | sed -e "s/'/''/g" -e 's/\$/$$/g' -e 's/[\\&|]/\\&/g'
}

manifest() {
	sed -e "s|@HOLDER@|$MOPSLOCK_HOLDER|" -e "s|@NAME@|$(filled "$MOPSLOCK_NAME")|" \
		-e "s|@LEASE@|$(filled "$MOPSLOCK_LEASE")|" "$manifest"
}

# Told to end (a Ctrl-C at `invoke`), we end the Job before the lease is released: otherwise the same work could begin
# again while it runs. A kill (SIGKILL) ends nothing: the Job goes on, and the next `invoke` waits for it.
cancel() {
	trap '' TERM INT HUP
	kubectl delete job "$job" --cascade=foreground --ignore-not-found --timeout=180s >&2 || true
	exit 143
}
trap cancel TERM INT HUP

# To create it again after a lost answer does no harm: there is one Job of this name.
tries=5
until manifest | kubectl create -f - >&2 || kubectl get "job/$job" >&2; do
	tries=$((tries - 1))
	test "$tries" -gt 0 || exit 1
	sleep 5
done

# `kubectl wait` knows one condition at a time; and a Job that has been deleted will never meet one.
condition() {
	kubectl get "job/$job" --ignore-not-found -o "jsonpath={.metadata.name} {.status.conditions[?(@.type==\"$1\")].status}"
}
until kubectl wait --for=condition=complete --timeout=60s "job/$job" >&2; do
	if failed=$(condition Failed); then # otherwise the cluster does not answer at the moment
		test -n "$failed" || { echo "launcher: job $job was deleted" >&2; exit 1; }
		test "${failed#* }" != True || { echo "launcher: job $job has failed" >&2; exit 1; }
	fi
	sleep 5
done
