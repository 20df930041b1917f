#!/usr/bin/env bash
# Installs the programs that chaos/lb runs as load balancers, haproxy and nginx,
# where it may: as root, on Debian or Ubuntu, with a package archive in reach.
# Where it may not it says so, loudly, and ends with 0: the tests that need a
# program skip without it. Neither program is left running, nor starting with
# the machine. INSTALL_ENGINES=no keeps it from installing anything.
set -euo pipefail

missing=()
for program in haproxy nginx; do
	# Debian keeps them in /usr/sbin, which is not in every PATH.
	PATH=$PATH:/usr/sbin:/usr/local/sbin command -v "$program" >/dev/null || missing+=("$program")
done
[ ${#missing[@]} -gt 0 ] || exit 0

skip() {
	printf '%s\n' \
		"################################################################" \
		"install-engines: ${missing[*]} not installed: $1." \
		"The tests of chaos/lb that run ${missing[*]} WILL BE SKIPPED. To have them:" \
		"    apt-get update && apt-get install --no-install-recommends ${missing[*]}" \
		"################################################################" >&2
	exit 0
}

[ "${INSTALL_ENGINES-}" != no ] || skip "INSTALL_ENGINES=no"
command -v apt-get >/dev/null && [ -e /etc/debian_version ] || skip "this is neither Debian nor Ubuntu"
[ "$(id -u)" = 0 ] || skip "only root may"

log=$(mktemp)
policy=/usr/sbin/policy-rc.d
cleanup() {
	rm -f "$log"
	if [ -n "${own_policy-}" ]; then rm -f "$policy"; fi
}
trap cleanup EXIT

# Packages of services start them unless this says no (101).
if [ ! -e "$policy" ]; then
	own_policy=yes
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

echo "install-engines: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt_get() { timeout 300 apt-get -qq -o Acquire::Retries=2 -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1; }
if ! { apt_get update && apt_get install --no-install-recommends "${missing[@]}"; }; then
	tail -n 5 "$log" >&2
	skip "apt-get failed"
fi

# Nor are they to start at the next boot: who wants that enables them.
for program in "${missing[@]}"; do
	if [ -d /run/systemd/system ]; then
		systemctl disable --now "$program" >/dev/null 2>&1 || true
	elif command -v update-rc.d >/dev/null; then
		update-rc.d "$program" disable >/dev/null 2>&1 || true
	fi
done
