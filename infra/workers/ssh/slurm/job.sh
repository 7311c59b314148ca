#!/bin/sh
# The batch script of a job, on a compute node: the way to the Prefect API, then the root of the job's processes. It
# runs once: Slurm is asked not to queue it again, and an administrator may all the same.
#
#   job.sh FOLDER LIMIT_S PORT LOGIN PYTHON TREE
#
# FOLDER/run holds the words for the verb `hold` of TREE, each ended by NUL. PORT is the tunnel's on the login node, 0
# without one; LOGIN the login node as compute nodes reach it, - for its own name.
set -u
umask 077
TRIES=6 # of the way to the login node, five seconds apart
WORDS=100000 # with a limit of words, xargs refuses what does not fit instead of splitting it
AGAIN=75 UNREACHED=69
folder=$1 limit=$2 port=$3 login=$4 python=$5 tree=$6
name=$(basename "$folder")
hidden=/dev/shm/$name
[ "$login" != - ] || login=$SLURM_SUBMIT_HOST
if [ -e "$folder/begun" ]; then
    echo "Slurm has started the job again; its processes run once."
    exit $AGAIN
fi
hostname >"$folder/begun"

hide() { # in this node's memory, as on a box: nobody else gets to it
    mkdir -m 700 "$hidden" && mkdir -m 755 "$hidden/prefect-secrets" && cp "$folder/env" "$hidden/env" &&
        cp "$folder/profiles.toml" "$hidden/prefect-secrets/profiles.toml" && rm "$folder/env"
}

way() { # opens the login node's port of the tunnel here; 0 once it is open, and by us
    rm -f "$hidden/way" # of one that was killed
    ssh -f -N -T -a -x -M -S "$hidden/way" -o BatchMode=yes -o ExitOnForwardFailure=yes -o ServerAliveInterval=10 \
        -o ConnectTimeout=20 -L "127.0.0.1:$port:127.0.0.1:$port" "$login" </dev/null >/dev/null 2>"$folder/way"
}

keep_open() {
    while sleep 5; do
        ssh -S "$hidden/way" -O check "$login" >/dev/null 2>&1 || way
    done
}

clean() {
    if [ -n "$keeper" ]; then
        kill "$keeper" 2>/dev/null
        ssh -S "$hidden/way" -O exit "$login" >/dev/null 2>&1
    fi
    "$python" "$tree" rm -f -v "$name" >/dev/null 2>&1
    rm -rf -- "$hidden" "$folder/env" "$folder/profiles.toml"
}

keeper='' waited=0
trap clean EXIT
trap : TERM # Slurm tells all processes of a job: the root ends the job, and this script ends the rest
hide || exit 1
if [ "$port" -ne 0 ] && [ "$(cat "$folder/login")" != "$(cat /proc/sys/kernel/random/boot_id)" ]; then
    until way; do
        waited=$((waited + 1))
        if [ "$waited" -ge $TRIES ]; then
            printf '%s to %s: %s\n' "$(hostname)" "$login" "$(tr '\n' ' ' <"$folder/way")" >"$folder/unreached"
            exit $UNREACHED
        fi
        sleep 5
    done
    keep_open &
    keeper=$!
fi
xargs -0 -x -n $WORDS "$python" "$tree" hold --limit-s "$limit" <"$folder/run"
"$python" "$tree" logs -f "$name" # until the tree has ended: a signal ends xargs before it
read -r code _ <"$folder/exit"
case $code in
none) exit 137 ;; # its root was killed
*[!0-9]* | '') exit 1 ;;
*) exit "$code" ;;
esac
