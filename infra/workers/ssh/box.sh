#!/bin/sh
# What the ssh worker does on a box: one job at a time, watched by a process of the box itself, so that a
# lost connection changes nothing. Called as `sh ssh_box.sh VERB …`; FOLDER is a job's own, its name the job's.
# RUNTIME is docker, podman, or the program of process trees (folder processes), which has the same commands.
# LABEL is on every container of a job that holds LOCK.
#
#   free LOCK WAIT_S                     0 the box is free within WAIT_S; 75 another job has it (stdout: which)
#   start FOLDER LOCK LIMIT_S PROFILE_BYTES ENV_BYTES LABEL RUNTIME…
#                                        0 started, now or before; 75 another job has the box (stdout: which)
#   look FOLDER RUNTIME…                 key=value lines: state, code, oom, late, seen, port, pulled
#   lines FOLDER OFFSET                  the log from a byte on, until the job has ended
#   stop FOLDER GRACE_S RUNTIME…         stops the container; 0 once it is gone
#   load LOCK RUNTIME…                   an image from stdin, while the box is free; 75 another job has it
#   session FOLDER                       ends the SSH session that followed the job before: it may hold the tunnel
#   check IMAGE RUNTIME…                 key=value lines about the box, for the preflight
#   python MODULE [PYTHON]               the first Python that has MODULE, or PYTHON if it has
#
# FOLDER/run and FOLDER/pull hold the words of `RUNTIME run …` and `RUNTIME pull …`, each ended by NUL: no shell
# reads what a user wrote. What nobody may read comes over stdin once the box is taken, lies in memory, and goes away
# with the container.
set -u
umask 077
BUSY=75
BROKEN=74
LOG_LIMIT_BLOCKS=2097152 # of 512 bytes: a log never fills the disk
WORDS=100000             # with a limit of words, xargs refuses what does not fit instead of splitting it
verb=$1
shift

# A rented box is often a container itself: where that starts anew, its first process does, and not the kernel.
boot() { echo "$(cat /proc/sys/kernel/random/boot_id)-$(cut -d' ' -f22 /proc/1/stat)"; }

alive() { # does the process that watches this job run, since this boot?
    [ -f "$1/watcher" ] && read -r pid of <"$1/watcher" && [ "$of" = "$(boot)" ] &&
        { tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -qF " watch $1 "
}

who() { # HOLDER: what this note says. Another user may have put a link, a pipe or a flood in its place.
    [ -L "$1" ] || ! [ -f "$1" ] ||
        timeout 5 dd if="$1" iflag=nofollow,nonblock bs=200 count=1 2>/dev/null | tr -cd '[:print:]\n'
}

take() { # LOCK WAIT_S [-s]: this process and what inherits its file 9 hold the box, or with -s see it free
    [ -d "$(dirname "$1")" ] || mkdir -p -m 700 "$(dirname "$1")"
    # Another user may own the file: it is opened without O_CREAT, which a sticky folder refuses.
    [ -e "$1" ] || [ -L "$1" ] || (case $1 in "$HOME"/*) ;; *) umask 0 ;; esac && : >>"$1") 2>/dev/null
    [ -f "$1" ] && [ -r "$1" ] || exit 73
    exec 9<"$1"
    if [ -L "$1" ] || ! [ "$1" -ef /proc/self/fd/9 ]; then # not where somebody else's link leads
        echo "it is a symbolic link" >&2
        exit 73
    fi
    if ! flock ${3:-} -w "$2" 9; then
        who "$1.holder"
        exit $BUSY
    fi
}

at() { # LOCK: its path, from the home folder on where it begins with ~/
    case $1 in "~/"*) printf '%s/%s' "$HOME" "${1#??}" ;; *) printf %s "$1" ;; esac
}

ended() { # FOLDER CODE OOM: written once, as a whole, and into space that it has had from the beginning
    [ -f "$1/ended" ] || { printf '%s %s            \n' "${2:-none}" "${3:-none}" 1<>"$1/ended.new" && mv "$1/ended.new" "$1/ended"; }
}

secrets() { printf '/dev/shm/%s' "$(basename "$1")"; }

hide() { # FOLDER PROFILE_BYTES ENV_BYTES: the container's user reads the inner folder, and nobody else gets to it
    place=$(secrets "$1")
    rm -rf -- "$place"
    mkdir -m 700 "$place" && mkdir -m 755 "$place/prefect-secrets" && cat >"$place/both" &&
        [ "$(wc -c <"$place/both")" -eq "$(($2 + $3))" ] && tail -c "+$(($2 + 1))" "$place/both" >"$place/env" &&
        (umask 022 && head -c "$2" "$place/both" >"$place/prefect-secrets/profiles.toml") && rm "$place/both"
}

clean() { # FOLDER RUNTIME…: nothing of the job stays but what it wrote
    folder=$1
    shift
    "$@" rm -f -v "$(basename "$folder")" >/dev/null 2>&1
    rm -rf -- "$(secrets "$folder")"
}

over() { # NAME RUNTIME…: is the container surely not running? A runtime that gives no answer does not say so.
    name=$1
    shift
    left=$("$@" ps -q --filter "name=^$name\$" 2>/dev/null) && [ -z "$left" ]
}

catch_up() { # FOLDER BEFORE RUNTIME…: what the container has printed and the log, which was BEFORE long, lacks
    folder=$1 name=$(basename "$1") from=$(($(wc -c <"$1/log") - $2 + 1))
    shift 2
    # Not live: what comes through a pipe waits in its buffers.
    "$@" logs "$name" 2>&1 | (ulimit -f "$LOG_LIMIT_BLOCKS" && tail -c "+$from" >>"$folder/log")
}

copy_log() { # FOLDER RUNTIME…: what the container prints, as it comes; podman may stop following too early
    folder=$1 name=$(basename "$1") before=$(wc -c <"$1/log")
    shift
    (ulimit -f "$LOG_LIMIT_BLOCKS" && exec "$@" logs -f "$name" >>"$folder/log" 2>&1)
    until over "$name" "$@"; do
        sleep 5
        catch_up "$folder" "$before" "$@"
    done
    catch_up "$folder" "$before" "$@"
}

limit() { # FOLDER LIMIT_S RUNTIME…: ends the container after so long, however often that takes
    trap 'kill "$nap" 2>/dev/null; exit' TERM
    folder=$1 name=$(basename "$1")
    sleep "$2" &
    nap=$!
    wait "$nap"
    shift 2
    : >"$folder/late"
    until over "$name" "$@" && [ -f "$folder/ended" ]; do
        timeout 120 "$@" stop -t 30 "$name"
        sleep 2 &
        nap=$!
        wait "$nap"
    done
}

watch() { # FOLDER LIMIT_S RUNTIME…: runs the container, and writes down how it ended
    folder=$1 limit=$2 name=$(basename "$1")
    shift 2
    printf 'none none            \n' >"$folder/ended.new" && : >"$folder/log" || exit 1
    limit "$folder" "$limit" "$@" >/dev/null 2>&1 &
    timer=$!
    found='none none'
    pulled=0
    if [ -f "$folder/pull" ]; then
        timeout "$limit" xargs -0 -x -n $WORDS "$@" <"$folder/pull" >>"$folder/log" 2>&1
        pulled=$?
        [ "$pulled" -ne 124 ] || : >"$folder/late" # timeout's own exit code
    fi
    if [ "$pulled" -ne 0 ]; then
        found='unpulled none'
    elif [ ! -f "$folder/late" ] && xargs -0 -x -n $WORDS "$@" <"$folder/run" 2>>"$folder/log" >/dev/null; then
        : >"$folder/begun"
        copy_log "$folder" "$@"
        found=$("$@" inspect -f '{{.State.ExitCode}} {{.State.OOMKilled}}' "$name" 2>/dev/null) || found='none none'
    fi
    kill "$timer" 2>/dev/null
    clean "$folder" "$@"
    # shellcheck disable=SC2086 # two words
    ended "$folder" $found
}

case $verb in
free)
    take "$(at "$1")" "$2" -s
    ;;
start)
    folder=$1 lock=$(at "$2") limit=$3 profile=$4 env=$5 label=$6
    shift 6
    # An earlier start of this job, whose answer was lost, may still be under way.
    exec 8>"$folder/starting" || exit $BROKEN
    flock -w 60 8 || exit $BROKEN
    if [ -f "$folder/ended" ] || alive "$folder"; then exit 0; fi
    take "$lock" 2 # others who only look hold it for a moment
    left=$("$@" ps -q --filter "label=$label" 8>&- 9<&-) || exit $BROKEN
    if [ -n "$left" ]; then # its watcher was killed, or somebody started it by hand
        echo "container $left"
        exit $BUSY
    fi
    if ! hide "$folder" "$profile" "$env"; then
        clean "$folder" "$@" 8>&- 9<&-
        exit $BROKEN
    fi
    rm -f "$lock.holder" 2>/dev/null
    # A new file, never behind a link; a pipe that another user has put there would wait for a reader.
    timeout 5 sh -Cc 'umask 022 && [ ! -e "$2" ] && basename "$1" >"$2"' note "$folder" "$lock.holder" 2>/dev/null 8>&- 9<&-
    # One shell holds the lock and nothing that it runs does: a container's monitor might keep it for ever.
    # With a command behind it, the last one does not take the shell's place.
    setsid sh -c '"$@" 9<&-; exit' hold sh "$0" watch "$folder" "$limit" "$@" >/dev/null 2>&1 </dev/null 8>&- &
    holder=$!
    until alive "$folder" || [ -f "$folder/ended" ]; do
        kill -0 "$holder" 2>/dev/null || exit $BROKEN
        sleep 0.05
    done
    ;;
watch)
    printf '%s %s\n' "$$" "$(boot)" >"$1/watcher" || exit 1
    watch "$@"
    ;;
look)
    folder=$1
    shift
    if [ ! -d "$folder" ]; then
        echo state=absent
    elif alive "$folder"; then
        echo state=running
    elif [ -f "$folder/ended" ]; then
        read -r code oom <"$folder/ended"
        printf 'state=ended\ncode=%s\noom=%s\n' "$code" "$oom"
    elif [ ! -s "$folder/watcher" ]; then
        echo state=prepared
    else # nobody watches it: what is left is removed
        read -r pid of <"$folder/watcher"
        if [ "$of" = "$(boot)" ]; then echo state=abandoned; else echo state=rebooted; fi
        clean "$folder" "$@"
    fi
    [ ! -f "$folder/late" ] || echo late=1
    [ ! -f "$folder/begun" ] || echo "pulled=$(($(stat -c %Y "$folder/begun") - $(stat -c %Y "$folder/watcher")))"
    [ ! -f "$folder/begun" ] || echo "began_ago=$(($(date +%s) - $(stat -c %Y "$folder/watcher")))"
    [ ! -f "$folder/ended" ] || echo "ended_ago=$(($(date +%s) - $(stat -c %Y "$folder/ended")))"
    [ ! -s "$folder/log" ] || printf 'last=%s\n' "$(tail -n 1 "$folder/log" | head -c 600)"
    for fact in seen port; do
        [ ! -f "$folder/$fact" ] || printf '%s=%s\n' "$fact" "$(cat "$folder/$fact")"
    done
    ;;
lines)
    folder=$1 from=$(($2 + 1))
    until [ -f "$folder/log" ] || ! alive "$folder"; do sleep 0.2; done
    if alive "$folder"; then
        read -r pid of <"$folder/watcher"
        exec tail -c "+$from" -f --pid="$pid" "$folder/log"
    fi
    [ ! -f "$folder/log" ] || exec tail -c "+$from" "$folder/log"
    ;;
stop)
    folder=$1 grace=$2 name=$(basename "$1")
    shift 2
    timeout "$((grace + 30))" "$@" stop -t "$grace" "$name" >/dev/null 2>&1
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        alive "$folder" || break # it writes down how the container ended
        sleep 0.5
    done
    if alive "$folder" && over "$name" "$@"; then # it is still pulling the image
        read -r pid of <"$folder/watcher"
        kill -TERM "-$(ps -o pgid= "$pid" | tr -d ' ')"
    fi
    clean "$folder" "$@"
    left=$("$@" ps -aq --filter "name=^$name\$") && [ -z "$left" ] || exit $BROKEN
    [ ! -d "$folder" ] || ended "$folder" stopped none
    ;;
load)
    take "$(at "$1")" 2
    shift
    "$@" load 9<&-
    ;;
session)
    born() { cut -d' ' -f22 "/proc/$1/stat" 2>/dev/null; }
    mine=$$
    until [ "${mine:-0}" -le 1 ]; do
        mine=$(ps -o ppid= -p "$mine" | tr -d ' ')
        case $(cat "/proc/${mine:-0}/comm" 2>/dev/null) in sshd*) break ;; esac
    done
    if [ -f "$1/session" ] && read -r old since of <"$1/session" && [ "$old" != "$mine" ]; then
        if [ "$of" = "$(boot)" ] && [ "$since" = "$(born "$old")" ]; then kill "$old"; fi
    fi
    [ ! -d "$1" ] || [ "${mine:-0}" -le 1 ] || echo "$mine $(born "$mine") $(boot)" >"$1/session"
    ;;
check)
    image=$1
    shift
    for tool in flock setsid xargs tail ps timeout; do command -v "$tool" >/dev/null || echo "missing=$tool"; done
    printf 'kernel=%s\narchitecture=%s\nhome=%s\n' "$(uname -r)" "$(uname -m)" "$HOME"
    # Docker's `info` says yes also where there is no daemon.
    if said=$("$@" ps -q 2>&1); then
        echo runtime=ok
        said=$("$@" info --format '{{json .}}' 2>/dev/null)
    else
        echo runtime=failed
    fi
    printf 'info=%s\n' "$(printf %s "$said" | tr '\n' ' ')"
    root=$("$@" info --format '{{.DockerRootDir}}' 2>/dev/null || "$@" info --format '{{.Store.GraphRoot}}' 2>/dev/null)
    for place in "$HOME" "${root:-/}"; do
        df -Pk "$place" 2>/dev/null | awk -v place="$place" 'NR == 2 {print "free_kib=" $4 " " place}'
    done
    printf 'image=%s\n' "$("$@" image inspect -f '{{.Id}}' "$image" 2>/dev/null)"
    printf 'lingers=%s\n' "$(loginctl show-user "$(id -un)" -p Linger --value 2>/dev/null)"
    sed -n 's/^MemTotal: *\([0-9]*\) kB/memory_kib=\1/p' /proc/meminfo
    sed -n 's/^model name[^:]*: /cpu=/p' /proc/cpuinfo | head -n 1
    nvidia-smi --query-gpu=driver_version,name --format=csv,noheader 2>/dev/null | sed 's/^/gpu=/'
    exit 0
    ;;
python)
    module=$1
    shift
    # A rented box often has the module in an environment that only a login shell knows.
    {
        command -v python3 python
        timeout 20 bash -ilc 'command -v python3; command -v python' 2>/dev/null
        ls -d /opt/*/bin/python /venv/*/bin/python "$HOME"/*/bin/python "$HOME"/.*/bin/python /workspace/*/bin/python
    } </dev/null 2>/dev/null | if [ -n "${1:-}" ]; then at "$1"; echo; else cat; fi | while read -r python; do
        has='import importlib.util as u, sys; sys.exit(sys.version_info < (3, 11) or not u.find_spec(sys.argv[1]))'
        if "$python" -P -c "$has" "$module" </dev/null 2>/dev/null; then
            echo "$python"
            break
        fi
    done
    ;;
*) exit 64 ;;
esac
