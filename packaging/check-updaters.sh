# RAUC and Mender's client run the two scripts of docs/installing.md around an update: sourced by check-packages.sh.
# Each installs a made-up image; the agent is of this commit, with a server beside it.

script_of_page() { # NAME: the page's script that says so in its second line
  awk -v name="# $1:" '/^```/ { if (found) exit; text = ""; next }
    { text = text $0 "\n" }
    index($0, name) == 1 { found = 1 }
    END { printf "%s", text }' docs/installing.md
}
updaters="$out/updaters"
start_device() {
  : >"$updaters/agent.log"
  "$(made new stemma-agent)" run --home "$updaters/van-7" --log json >>"$updaters/agent.log" 2>&1 &
  agent=$!
  must within 60 grep -q '"welcomed"' "$updaters/agent.log"
}
stop_device() { kill "$agent" && ended_with 0; }

prepare_updaters() { # ARGUMENTS-OF-THE-FIRST ARGUMENTS-OF-THE-SECOND
  local name
  begin_fleet new "$updaters"
  "$(made new stemma-agent)" enroll "$updaters/van-7.json" --home "$updaters/van-7" >/dev/null
  mkdir "$updaters/bin" "$updaters/bundle"
  printf '#!/bin/sh\nSTEMMA_AGENT_HOME=%s exec %s "$@"\n' "$updaters/van-7" "$(made new stemma-agent)" \
    >"$updaters/bin/stemma-agent"
  for name in before after; do
    printf '#!/bin/sh\nPATH=%s:$PATH\nset -- %s\n' "$updaters/bin" "$1" >"$updaters/$name"
    script_of_page "stemma-$name-update" >>"$updaters/$name"
    must grep -q "stemma-agent " "$updaters/$name"
    shift
  done
  chmod +x "$updaters/bin/stemma-agent" "$updaters/before" "$updaters/after"
  head -c 65536 /dev/urandom >"$updaters/bundle/image.img"
}

# RAUC's service on a bus of its own, with two files as slots and a boot loader that is a file.
rauc_as_device() {
  openssl req -x509 -newkey rsa:2048 -nodes -keyout "$updaters/key.pem" -out "$updaters/cert.pem" -subj /CN=van \
    -days 2 -addext keyUsage=digitalSignature 2>/dev/null
  printf '[update]\ncompatible=van\nversion=2\n[bundle]\nformat=plain\n[image.rootfs]\nfilename=image.img\n' \
    >"$updaters/bundle/manifest.raucm"
  rauc --cert="$updaters/cert.pem" --key="$updaters/key.pem" bundle "$updaters/bundle" "$updaters/update.raucb" \
    >/dev/null 2>&1
  mkdir -p "$updaters/mount" "$updaters/boot"
  cat >"$updaters/boot-loader" <<SCRIPT
#!/bin/sh
cd "$updaters/boot"
case "\$1" in
get-primary) cat primary ;;
set-primary) echo "\$2" >primary ;;
get-state) cat "\$2" ;;
set-state) echo "\$3" >"\$2" ;;
get-current) echo A ;;
esac
SCRIPT
  chmod +x "$updaters/boot-loader"
  cat >"$updaters/system.conf" <<CONF
[system]
compatible=van
bootloader=custom
mountprefix=$updaters/mount
statusfile=$updaters/boot/slots
[keyring]
path=$updaters/cert.pem
[handlers]
bootloader-custom-backend=$updaters/boot-loader
pre-install=$updaters/before
[slot.rootfs.0]
device=$updaters/slot-a
type=raw
bootname=A
[slot.rootfs.1]
device=$updaters/slot-b
type=raw
bootname=B
CONF
  for slot in a b; do truncate -s 65536 "$updaters/slot-$slot"; done
  for file in primary A B; do echo good >"$updaters/boot/$file"; done
  echo A >"$updaters/boot/primary"
}
# Booted from the slot; the commands talk to the service of the same bus.
rauc_in() { # SLOT WORD…
  timeout 120 dbus-run-session -- sh -c 'export DBUS_STARTER_BUS_TYPE=session
    rauc --conf="$0/system.conf" --override-boot-slot="$1" service >"$0/rauc.log" 2>&1 & service=$!
    for i in $(seq 100); do rauc status >/dev/null 2>&1 && break; sleep 0.1; done
    shift && "$@"; status=$?
    kill $service; exit $status' "$updaters" "$@" >"$updaters/rauc.out" 2>&1
}

check_rauc() {
  rauc_as_device
  start_device
  must rauc_in A rauc install "$updaters/update.raucb"
  ended_with 75
  must cmp "$updaters/bundle/image.img" "$updaters/slot-b"
  must test "$(cat "$updaters/boot/primary" "$updaters/boot/B")" = $'B\nbad'
  # In the new slot: no agent, so it is not marked as good.
  must rauc_in B sh -c "! { '$updaters/after' && rauc status mark-good; }"
  must test "$(cat "$updaters/boot/B")" = bad
  start_device
  must rauc_in B sh -c "'$updaters/after' && rauc status mark-good"
  must test "$(cat "$updaters/boot/B")" = good
  # Where the agent does not end, nothing is installed.
  kill -STOP "$agent"
  echo A >"$updaters/boot/primary"
  must rauc_in A sh -c "! rauc install '$updaters/update.raucb'"
  must test "$(cat "$updaters/boot/primary")" = A
  kill -CONT "$agent"
  ended_with 75
}

# Mender's client without a server, with an update module that does nothing. Its folders are those of a mount namespace.
as_mender() {
  unshare -m sh -c 'mount --bind "$0/etc" /etc/mender && mount --bind "$0/modules" /usr/share/mender/modules/v3 &&
    exec mender --config "$0/etc/mender.conf" --data "$0/data" --no-syslog "$@"' \
    "$updaters/mender" "$@" >>"$updaters/mender.log" 2>&1
}
check_mender() {
  local mender="$updaters/mender"
  mkdir -p "$mender/etc" "$mender/modules" "$mender/data" "$mender/scripts"
  echo artifact_name=release-1 >"$mender/etc/artifact_info"
  echo device_type=van >"$mender/data/device_type"
  echo '{}' >"$mender/etc/mender.conf"
  printf '#!/bin/sh\ncase "$1" in NeedsArtifactReboot | SupportsRollback) echo Yes ;; esac\n' >"$mender/modules/nothing"
  chmod +x "$mender/modules/nothing"
  cp "$updaters/before" "$mender/scripts/ArtifactInstall_Leave_10"
  cp "$updaters/after" "$mender/scripts/ArtifactCommit_Enter_10"
  mender-artifact write module-image -T nothing -n release-2 -t van \
    -f "$updaters/bundle/image.img" -o "$updaters/update.mender" \
    -s "$mender/scripts/ArtifactInstall_Leave_10" -s "$mender/scripts/ArtifactCommit_Enter_10" >/dev/null
  start_device
  must as_mender install "$updaters/update.mender"
  ended_with 75
  # In the new slot: no agent, so the commit takes the update back, and there is nothing more to commit.
  must test "$(as_mender commit || echo refused)" = refused
  must test "$(as_mender commit || echo $?)" = 2
  start_device
  must as_mender install "$updaters/update.mender"
  ended_with 75
  start_device
  must as_mender commit
  stop_device
}

say "updaters of images"
if [ "$(id -u)" = 0 ] && have apt-get && ! { have rauc && have mender && have mender-artifact; }; then
  timeout 300 apt-get install -y -q --no-install-recommends rauc squashfs-tools dbus mender-client mender-artifact \
    >/dev/null 2>&1 || true
fi
if [ "$(id -u)" != 0 ] || ! have rauc || ! have mender || ! have mender-artifact || ! have dbus-run-session; then
  left_out "RAUC and Mender, which need root, rauc, mender-client, mender-artifact and dbus"
  return 0
fi
prepare_updaters 20 "2 1"
check_rauc
check_mender
end_fleet
echo "RAUC and Mender install, put off and take back as the two scripts say"
