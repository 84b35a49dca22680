#!/usr/bin/env bash
# Checks what `npm run package -- --deb` makes, as far as this machine can: the part `packages` of `.ci/full`.
#   packaging/check-packages.sh [FOLDER]    FOLDER keeps what was made; what is there of an earlier run is used
# Agents and servers of this commit and of an earlier one work together (check-releases.sh), RAUC and Mender update
# around an agent (check-updaters.sh), the units are examined, the arm64 executable computes the engine's known answer
# (qemu), and Debian packages are installed, upgraded, taken back, removed and purged by dpkg (check-debian.sh). What is
# left out is said.
set -euo pipefail
cd "$(dirname "$0")/.."
out="${1:-$(mktemp -d)}"
mkdir -p "$out"
out="$(realpath "$out")"
# shellcheck source=packaging/steps.sh
. packaging/steps.sh
clean_up() {
  [ -z "$agent$server" ] || kill -9 $agent $server 2>/dev/null || true
  if [ "$(type -t leave_roots)" = function ]; then leave_roots; fi
}
trap clean_up EXIT

if [ "$(id -u)" = 0 ] && have apt-get; then
  wanted=()
  have mmdebstrap || wanted+=(mmdebstrap)
  have arch-test || wanted+=(arch-test)
  have qemu-aarch64 || wanted+=(qemu-user libstdc++6-arm64-cross)
  have qemu-aarch64-static || wanted+=(qemu-user-static)
  [ ${#wanted[@]} = 0 ] || timeout 300 apt-get install -y -q "${wanted[@]}" >/dev/null 2>&1 || true
fi

older=0.1.0-rc.1
# What landed before: the newest tag, else the newest commit that is hours older, as in launcher/tests/known-faults.mjs.
before="${STEMMA_TEST_PARENT:-$(git describe --tags --abbrev=0 HEAD^ 2>/dev/null ||
  git rev-list -1 --before=$(($(git log -1 --format=%ct) - 4 * 3600)) HEAD)}"
if [ -z "$before" ]; then
  echo "There is no earlier commit to compare with: name one with STEMMA_TEST_PARENT." >&2
  exit 1
fi
make_older() {
  local lock=package-lock.json checkout="$out/checkout"
  git worktree add --quiet --detach --force "$checkout" "$before"
  if cmp -s "$lock" "$checkout/$lock"; then
    cp -a node_modules "$checkout"
  else
    (cd "$checkout" && npm ci --silent --ignore-scripts --prefer-offline --no-audit --no-fund)
  fi
  mkdir -p "$checkout/.build" && cp -a .build/base-node "$checkout/.build"
  (cd "$checkout" && npm run --silent package -- --target linux-x64 --deb --out "$out/old" --release "$older")
  git worktree remove --force "$checkout"
}
[ -f "$out/new/SHA256SUMS" ] || npm run --silent package -- --target linux-x64 --deb --out "$out/new"
[ -f "$out/arm/SHA256SUMS" ] || npm run --silent package -- --target linux-arm64 --deb --out "$out/arm" agent
if [ ! -f "$out/old/SHA256SUMS" ]; then make_older; fi
# Settings of a device that trains where it is asked to alone, and samples for it.
schedule='{"afterSamples":100000,"everySeconds":null}'
settings='{"format":1,"lines":{"pack-soh":{"recipe":"battery-soh","schedule":'"$schedule"'}}}'
all_released() { # STATUS-COMMAND…: it lists models, and none that waits to be reported
  "$@" -o json >"$out/status.json" && grep -q '"standing": "released"' "$out/status.json" || return 1
  ! grep -q '"standing": "pending"' "$out/status.json"
}
for each in new old; do say "$each: $("$(made "$each" stemma-agent)" --version)"; done

# shellcheck source=packaging/check-releases.sh
. packaging/check-releases.sh
# shellcheck source=packaging/check-updaters.sh
. packaging/check-updaters.sh

say "arm64"
arm="$out/arm/stemma-agent-$version-linux-arm64"
if have qemu-aarch64 && [ -d /usr/aarch64-linux-gnu ]; then
  run_arm() { STEMMA_UNPACKED="$out/unpacked" qemu-aarch64 -L /usr/aarch64-linux-gnu "$arm" "$@"; }
  run_arm --version | tee "$out/arm-version"
  must grep -q "linux-arm64" "$out/arm-version"
  engine="$(ls -d "$out"/unpacked/*/dist/engine)"
  expected="$(node -p "JSON.parse(require('fs').readFileSync('$engine/engine.json','utf8')).knownAnswer")"
  # The engine ends when its standard input does.
  rm -f "$out/open" && mkfifo "$out/open"
  exec 3<>"$out/open"
  actual="$(run_arm --stemma-part "$engine/engine.mjs" --known-answer <&3)"
  must test "$actual" = "$expected"
  echo "known answer ${actual:0:12}, as expected (emulated)"
else
  left_out "arm64, as there is no qemu-aarch64 with libraries for it"
fi

say "units"
if have systemd-analyze; then
  for command in stemma-agent stemma; do
    rm -rf "$out/tree" && dpkg-deb -x "$out/new/${command}_${version}_amd64.deb" "$out/tree"
    unit="$out/$command.service"
    # The program is not installed here.
    sed "s#^ExecStart=[^ ]*#ExecStart=/bin/true#" "$out/tree/usr/lib/systemd/system/$command.service" >"$unit"
    must systemd-analyze verify --man=no "$unit"
    must systemd-analyze security --offline=true --threshold=35 --no-pager "$unit" | tail -n 1
  done
else
  left_out "units, as there is no systemd-analyze"
fi

# shellcheck source=packaging/check-debian.sh
. packaging/check-debian.sh
