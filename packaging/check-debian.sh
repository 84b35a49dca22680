# Debian packages in a Debian root, by dpkg: sourced by check-packages.sh. There is no systemd, so its part is done by
# hand: the programs run as the services' users.

root= roots=() emulation= own_list=
leave_roots() {
  wait
  for root in ${roots[@]+"${roots[@]}"}; do
    umount "$root/var/lib/stemma-agent" 2>/dev/null || true
    umount -R "$root/dev" "$root/proc" || true
  done
  if [ -n "$emulation" ]; then echo -1 >"$emulation"; fi
  if [ -n "$own_list" ]; then umount "$own_list"; fi
}
enter_root() { # NAME ARCHITECTURE WORDS…: makes it and is in it from now on. Status 1 where it cannot be made
  root="$out/$1"
  rm -rf "$root"
  if [ ! -f "$root.tar" ]; then
    mmdebstrap --quiet --variant=minbase --architectures="$2" "${@:3}" bookworm "$root.tmp.tar" >"$root.log" 2>&1 ||
      return 1
    mv "$root.tmp.tar" "$root.tar"
  fi
  mkdir -p "$root"
  tar xf "$root.tar" -C "$root" --exclude=./dev/*
  roots+=("$root")
  mount --bind /proc "$root/proc"
  mount --rbind /dev "$root/dev"
}
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
install_deb() {
  cp "$1" "$root/tmp/x.deb" || return 1
  inside dpkg --force-confold -i /tmp/x.deb >>"$out/dpkg.log" 2>&1 && rm "$root/tmp/x.deb"
}
run_as() { # USER WORD…: replaces this process
  exec chroot "$root" env -i PATH=/usr/bin:/bin HOME="/var/lib/$1" XDG_CACHE_HOME="/var/cache/$1" \
    setpriv --reuid="$1" --regid="$1" --init-groups "/usr/lib/$1/$1" "${@:2}"
}
start_agent() {
  : >"$out/agent.log"
  run_as stemma-agent run --home /var/lib/stemma-agent --log json >>"$out/agent.log" 2>&1 &
  agent=$!
  must within 120 grep -q '"welcomed"' "$out/agent.log"
}
train_once() { # also reports the model
  echo "$settings" >"$root/var/lib/stemma-agent/agent.json"
  inside chown stemma-agent: /var/lib/stemma-agent/agent.json
  start_agent
  must within 120 all_released inside stemma-agent status
  node examples/samples.mjs 40 >"$root/tmp/samples.jsonl"
  inside stemma-agent samples pack-soh /tmp/samples.jsonl >/dev/null
  inside stemma-agent train pack-soh >/dev/null
  must within 120 all_released inside stemma-agent status
  must test "$(grep -c '"sequence": 1' "$out/status.json")" = 1
}
nothing_left() { # COMMAND…: of what was purged
  local command
  for command in "$@"; do
    must test ! -e "$root/var/lib/$command"
    must test ! -e "$root/var/cache/$command"
    must test ! -e "$root/etc/default/$command"
    must inside sh -c "! getent passwd $command"
  done
  must test -z "$(find "$root/etc" "$root/usr" "$root/var/lib" -name '*stemma*' | head)"
}

say "dpkg in a Debian root"
if ! have mmdebstrap || [ "$(id -u)" != 0 ]; then
  left_out "installing by dpkg, which needs mmdebstrap and root"
  return 0
fi
if ! enter_root root amd64 --include=init-system-helpers,systemd; then
  left_out "installing by dpkg, as no Debian root could be made: $(tail -n 1 "$root.log")"
  return 0
fi
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
home="$root/var/lib/stemma-agent"
run_as stemma server --home /var/lib/stemma --fleet local --mqtt-port 0 --http-port 0 >"$out/server.log" 2>&1 &
server=$!
must within 60 grep -q "for devices" "$out/server.log"
inside stemma data add cells - --kind battery-simulated >/dev/null
inside stemma model train --recipe battery-soh --data cells --name base >/dev/null 2>&1
for device in van-7 van-8; do
  inside sh -c "cd /var/lib/stemma && stemma device enroll $device --line pack-soh --initial pack-soh=base" >/dev/null
done
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
must inside dpkg -P stemma-agent >>"$out/dpkg.log" 2>&1

# Programs of another architecture start in a root where the kernel hands them to qemu. Its list is the machine's, so
# what is added is taken away again. It keeps qemu open, so the root needs no qemu.
emulate_arm64() {
  local list=/proc/sys/fs/binfmt_misc rule=/usr/lib/binfmt.d/qemu-aarch64.conf
  [ ! -e "$list/qemu-aarch64" ] || return 0
  [ -f "$rule" ] || return 1
  if [ ! -e "$list/register" ]; then mount -t binfmt_misc binfmt_misc "$list" && own_list="$list" || return 1; fi
  cat "$rule" >"$list/register" && emulation="$list/qemu-aarch64"
}
say "dpkg in an arm64 Debian root (emulated)"
x64="$root"
if emulate_arm64 2>/dev/null && enter_root arm-root arm64 --include=init-system-helpers,libstdc++6; then
  must install_deb "$out/arm/stemma-agent_${version}_arm64.deb"
  inside stemma-agent --version | tee "$out/arm-version"
  must grep -q "linux-arm64" "$out/arm-version"
  cp "$x64/var/lib/stemma/van-8.invitation.json" "$root/tmp/"
  inside stemma-agent enroll /tmp/van-8.invitation.json >/dev/null
  train_once
  must chroot "$x64" env STEMMA_HOME=/var/lib/stemma /usr/bin/stemma model verify pack-soh-van-8
  must inside dpkg -r stemma-agent >>"$out/dpkg.log" 2>&1
  ended_with 0
  must test -f "$root/var/lib/stemma-agent/agent.json"
  must inside dpkg -P stemma-agent >>"$out/dpkg.log" 2>&1
  nothing_left stemma-agent
  echo "enrolled, trained, reported, removed and purged"
else
  left_out "an arm64 Debian root, as the kernel starts no qemu-user-static or none could be made:" \
    "$(tail -n 1 "$out/arm-root.log" 2>/dev/null)"
fi
root="$x64"
end_server
must inside dpkg -P stemma >>"$out/dpkg.log" 2>&1
nothing_left stemma-agent stemma
say "installed, upgraded, taken back, removed and purged"
