# Steps of the checks of packages: sourced, with the folder `out` and, where executables of an earlier commit are asked
# for, their release `older`.
left_out() { echo "left out: $*"; }
say() { echo "-- $*"; }
must() { "$@" || { echo "failed: $*" >&2; exit 1; }; }
have() { command -v "$1" >/dev/null; }
within() { # SECONDS COMMAND…: until it succeeds
  local end=$((SECONDS + $1)) && shift
  until "$@" >/dev/null 2>&1; do [ "$SECONDS" -lt "$end" ] && sleep 0.2 || return 1; done
}
has_ended() { ! kill -0 "$1"; }
agent= server=
ended_with() { # STATUS: the running agent ends with it; 75 keeps its unit from starting it again
  local status=0
  must within 60 has_ended "$agent"
  wait "$agent" || status=$?
  agent=
  must test "$status" = "$1"
}
end_server() {
  kill "$server" && wait "$server" || true
  server=
}
version="$(node -p 'JSON.parse(require("fs").readFileSync("package.json","utf8")).version')"
made() { # old|new COMMAND: its executable
  local release="$version"
  [ "$1" = new ] || release="$older"
  echo "$out/$1/$2-$release-linux-x64"
}
serve() { # old|new FOLDER PORT-OPTIONS…
  : >"$2/server.log"
  "$(made "$1" stemma)" server "${@:3}" >>"$2/server.log" 2>&1 &
  server=$!
  must within 60 grep -q "for devices" "$2/server.log"
}
begin_fleet() { # old|new FOLDER: a server there, and van-7.json, which invites a device to the line pack-soh
  local stemma
  stemma="$(made "$1" stemma)"
  rm -rf "$2" && mkdir "$2"
  export STEMMA_HOME="$2/server" STEMMA_FLEET=local
  serve "$1" "$2" --mqtt-port 0 --http-port 0
  "$stemma" data add cells - --kind battery-simulated >/dev/null
  "$stemma" model train --recipe battery-soh --data cells --name base --set epochs=2 >/dev/null 2>&1
  "$stemma" device enroll van-7 --line pack-soh --initial pack-soh=base --file "$2/van-7.json" >/dev/null 2>&1
}
end_fleet() {
  end_server
  unset STEMMA_HOME STEMMA_FLEET
}
