# Stands in for the suite, for the tests: the same arguments, files and exit
# status. The scenario's name says what becomes of it.
if [ "$1" = list ]; then
	printf 'Client scenarios (test against a client):\n  - initialize [2025-11-25]\n  - auth/basic [draft]\n'
	exit
fi
while [ $# -gt 1 ]; do
	case $1 in
	--command) command=$2 ;;
	--scenario) scenario=$2 ;;
	--output-dir) out=$2 ;;
	esac
	shift
done
case $scenario in
no-results)
	printf 'Starting scenario\nno such port\n' >&2
	exit 1
	;;
esac
folder=$out/$scenario-2026-01-02T03-04-05-000Z
mkdir -p "$folder"
echo '[{"id": "called", "status": "SUCCESS"}]' >"$folder/checks.json"
MCP_CONFORMANCE_SCENARIO=$scenario sh -c "$command http://localhost:1" >"$folder/stdout.txt" 2>"$folder/stderr.txt"
