#!/usr/bin/env bash
# Measures an hour of an agent that has nothing to do, from the executable: the part `idle` of `.ci/full`.
#   packaging/measure-idle.sh [FOLDER]      STEMMA_IDLE_MINUTES=N instead of 60
set -euo pipefail
cd "$(dirname "$0")/.."
minutes="${STEMMA_IDLE_MINUTES:-60}"
out="${1:-$(mktemp -d)}"
mkdir -p "$out"
out="$(realpath "$out")"
# shellcheck source=packaging/steps.sh
. packaging/steps.sh
trap '[ -z "$agent$server" ] || kill -9 $agent $server 2>/dev/null || true' EXIT
[ -f "$out/new/SHA256SUMS" ] || npm run --silent package -- --target linux-x64 --out "$out/new"

home="$out/idle"
begin_fleet new "$home"
"$(made new stemma-agent)" enroll "$home/van-7.json" --home "$home/van-7" >/dev/null
"$(made new stemma-agent)" run --home "$home/van-7" --log json >"$home/agent.log" 2>&1 &
agent=$!
must within 60 grep -q '"activated"' "$home/agent.log"
# Its first minute is the start.
sleep 60
ticks() { awk '{ print $14 + $15 }' "/proc/$agent/stat"; }
memory() { awk '/^Pss:/ { printf "%.0f", $2 / 1000 }' "/proc/$agent/smaps_rollup"; }
began="$(ticks)" at_first="$(memory)"
sleep $((60 * minutes))
used=$(($(ticks) - began))
echo "idle for $minutes minutes: $(node -p "(100 * $used / $(getconf CLK_TCK) / 60 / $minutes).toFixed(3)") % of a core" \
  "(aim 0.2), memory $at_first MB, then $(memory) MB (aim 70; docs/performance.md says what it is made of)"
kill "$agent"
ended_with 0
end_fleet
