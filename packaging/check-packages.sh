#!/usr/bin/env bash
# Checks what `npm run package -- --deb` makes, as far as this machine can: the part `packages` of `.ci/full`.
#   packaging/check-packages.sh [FOLDER]    FOLDER keeps what was made; what is there of an earlier run is used
# x64 Debian packages are installed, upgraded, taken back, removed and purged by dpkg in a Debian root (mmdebstrap), the
# units are examined, and the arm64 executable computes the engine's known answer (qemu). What is left out is said.
set -euo pipefail
cd "$(dirname "$0")/.."
out="${1:-$(mktemp -d)}"
mkdir -p "$out"
left_out() { echo "left out: $*"; }
say() { echo "-- $*"; }
must() { "$@" || { echo "failed: $*" >&2; exit 1; }; }

have() { command -v "$1" >/dev/null; }
if [ "$(id -u)" = 0 ] && have apt-get; then
  wanted=()
  have mmdebstrap || wanted+=(mmdebstrap)
  have qemu-aarch64 || wanted+=(qemu-user libstdc++6-arm64-cross)
  [ ${#wanted[@]} = 0 ] || timeout 300 apt-get install -y -q "${wanted[@]}" >/dev/null 2>&1 || true
fi

older=0.1.0-rc.1
version="$(node -p 'JSON.parse(require("fs").readFileSync("package.json","utf8")).version')"
[ -f "$out/new/SHA256SUMS" ] || npm run --silent package -- --target linux-x64 --deb --out "$out/new"
[ -f "$out/old/SHA256SUMS" ] || npm run --silent package -- --target linux-x64 --deb --out "$out/old" --release "$older" agent
[ -f "$out/arm/SHA256SUMS" ] || npm run --silent package -- --target linux-arm64 --out "$out/arm"

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

say "dpkg in a Debian root"
if ! have mmdebstrap || [ "$(id -u)" != 0 ]; then
  left_out "installing by dpkg, which needs mmdebstrap and root"
  exit 0
fi
root="$out/root"
rm -rf "$root"
if [ ! -f "$out/root.tar" ]; then
  mmdebstrap --quiet --variant=minbase --include=init-system-helpers,systemd bookworm "$out/root.tar" >"$out/root.log" 2>&1 || {
    left_out "installing by dpkg, as no Debian root could be made: $(tail -n 1 "$out/root.log")"
    exit 0
  }
fi
mkdir -p "$root"
tar xf "$out/root.tar" -C "$root" --exclude=./dev/*
mount --bind /proc "$root/proc"
mount --rbind /dev "$root/dev"
trap 'umount -R "$root/dev" "$root/proc"' EXIT
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
install_deb() { cp "$1" "$root/tmp/x.deb" && inside dpkg --force-confold -i /tmp/x.deb >>"$out/dpkg.log" 2>&1 && rm "$root/tmp/x.deb"; }
old_agent="$out/old/stemma-agent_${older/-/\~}_amd64.deb"
new_agent="$out/new/stemma-agent_${version}_amd64.deb"

must install_deb "$old_agent"
must test "$(inside stat -c '%U %a' /var/lib/stemma-agent)" = "stemma-agent 700"
inside stemma-agent --version
must inside test -L /etc/systemd/system/multi-user.target.wants/stemma-agent.service
# A home of the older release, which an upgrade must keep, with settings that a person changed.
echo '{ "format": 1, "lines": {} }' >"$root/var/lib/stemma-agent/agent.json"
echo "STEMMA_AGENT_OPTIONS=--log-level debug" >>"$root/etc/default/stemma-agent"
must install_deb "$new_agent"
must inside sh -c 'stemma-agent --version | grep -q "^'"$version"' "'
must grep -q "log-level debug" "$root/etc/default/stemma-agent"
must test -f "$root/var/lib/stemma-agent/agent.json"
say "back to the older release"
must install_deb "$old_agent"
must inside sh -c 'stemma-agent --version | grep -q "^'"$older"' "'
must install_deb "$new_agent"
must install_deb "$out/new/stemma_${version}_amd64.deb"
inside stemma doctor || true
must test "$(inside stat -c %U /var/lib/stemma)" = stemma

say "an agent that runs is upgraded, also while it hangs or its disk is full, and removed"
# There is no systemd here, so its part is done by hand: the programs run as the services' users.
run_as() { # USER WORD…: replaces this process
  exec chroot "$root" env -i PATH=/usr/bin:/bin HOME="/var/lib/$1" XDG_CACHE_HOME="/var/cache/$1" \
    setpriv --reuid="$1" --regid="$1" --init-groups "/usr/lib/$1/$1" "${@:2}"
}
within() { # SECONDS COMMAND…: until it succeeds
  local end=$((SECONDS + $1)) && shift
  until "$@" >/dev/null 2>&1; do [ "$SECONDS" -lt "$end" ] && sleep 0.2 || return 1; done
}
start_agent() {
  : >"$out/agent.log"
  run_as stemma-agent run --home /var/lib/stemma-agent --log json >>"$out/agent.log" 2>&1 &
  agent=$!
  must within 60 grep -q '"welcomed"' "$out/agent.log"
}
has_ended() { ! kill -0 "$1"; }
ended_with() { # STATUS: the running agent ends with it; 75 keeps its unit from starting it again
  local status=0
  must within 30 has_ended "$agent"
  wait "$agent" || status=$?
  agent=
  must test "$status" = "$1"
}
home="$root/var/lib/stemma-agent"
clean_up() {
  [ -z "$agent$server" ] || kill -9 $agent $server || true
  wait
  umount "$home" 2>/dev/null || true
  umount -R "$root/dev" "$root/proc"
}
agent=
run_as stemma server --home /var/lib/stemma --fleet local --mqtt-port 0 --http-port 0 >"$out/server.log" 2>&1 &
server=$!
trap clean_up EXIT
must within 60 grep -q "for devices" "$out/server.log"
inside stemma data add cells - --kind battery-simulated >/dev/null
inside stemma model train --recipe battery-soh --data cells --name base >/dev/null 2>&1
inside sh -c 'cd /var/lib/stemma && stemma device enroll van-7 --line pack-soh --initial pack-soh=base' >/dev/null
inside stemma-agent enroll /var/lib/stemma/van-7.invitation.json >/dev/null
start_agent
must install_deb "$old_agent"
ended_with 75
start_agent
kill -STOP "$agent"
began=$SECONDS
must install_deb "$new_agent"
echo "one that hangs was waited for: $((SECONDS - began)) s with the installing"
kill -CONT "$agent"
ended_with 75
# A disk of its own, so that it alone is full.
cp -a "$home" "$out/home" && mount -t tmpfs -o size=16m tmpfs "$home"
cp -a "$out/home/." "$home" && rm -r "$out/home"
start_agent
dd if=/dev/zero of="$home/full" bs=4k >/dev/null 2>&1 || true
must install_deb "$old_agent"
ended_with 75
rm "$home/full"
start_agent
must install_deb "$new_agent"
ended_with 75
start_agent
say "removed, then purged"
must inside dpkg -r stemma-agent >>"$out/dpkg.log" 2>&1
ended_with 0
must test -f "$home/agent.json"
must test ! -e "$root/usr/lib/stemma-agent"
umount "$home"
kill "$server" && wait "$server"
server=
must inside dpkg -P stemma-agent stemma >>"$out/dpkg.log"
for gone in var/lib/stemma-agent var/lib/stemma var/cache/stemma-agent var/cache/stemma etc/default/stemma-agent; do
  must test ! -e "$root/$gone"
done
must inside sh -c '! getent passwd stemma-agent && ! getent passwd stemma'
must test -z "$(find "$root/etc" "$root/usr" "$root/var/lib" -name '*stemma*' | head)"
say "installed, upgraded, taken back, removed and purged"
