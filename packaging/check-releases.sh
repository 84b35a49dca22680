# Agents of two releases, one after the other on one home, with a server of one of them: sourced by check-packages.sh.
# Each agent opens what the one before wrote, reports what that trained while the server was gone, and trains on; the
# server recovers every model in the end. Needs neither root nor Debian.

together() { # SERVER AGENT…: each new or old
  local home="$out/together" trained=0 ports release names
  begin_fleet "$1" "$home"
  ports=(--mqtt-port "$(sed -nE 's/.*mqtts:[^ ]*:([0-9]+) for.*/\1/p' "$home/server.log")"
    --http-port "$(sed -nE 's/.*https:[^ ]*:([0-9]+) for.*/\1/p' "$home/server.log")")
  node examples/samples.mjs 40 >"$home/samples.jsonl"
  own() { "$(made "$release" stemma-agent)" "$@" --home "$home/van-7"; }
  for release in "${@:2}"; do
    if [ ! -d "$home/van-7" ]; then
      own enroll "$home/van-7.json" >/dev/null
      echo "$settings" >"$home/van-7/agent.json"
    fi
    [ -n "$server" ] || serve "$1" "$home" "${ports[@]}"
    : >"$home/agent.log"
    "$(made "$release" stemma-agent)" run --home "$home/van-7" --log json >>"$home/agent.log" 2>&1 &
    agent=$!
    must within 60 grep -q '"welcomed"' "$home/agent.log"
    must within 60 all_released own status
    own samples pack-soh "$home/samples.jsonl" >/dev/null
    own train pack-soh >/dev/null
    must within 60 all_released own status
    end_server
    own train pack-soh >/dev/null
    trained=$((trained + 2))
    kill "$agent"
    ended_with 0
  done
  serve "$1" "$home" "${ports[@]}"
  names="$("$(made "$1" stemma)" model list -o name)"
  # With the base, and without the last one, which waits on the device.
  must test "$(wc -l <<<"$names")" = "$trained"
  # shellcheck disable=SC2086
  must "$(made "$1" stemma)" model verify $names >"$home/verified"
  end_fleet
}

say "agents that are upgraded and taken back, with the newer server"
together new old new old
say "the same with the earlier server"
together old new old new
