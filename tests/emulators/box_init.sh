# The first process of a box: its own mounts, then sshd. $1 is its folder; what is named besides is seen, too.
set -e
box=$1
shift
number=0
for path in "$@"; do
    number=$((number + 1))
    mkdir -p "$box/seen/$number"
    mount --bind "$path" "$box/seen/$number"
done
mount -t proc proc /proc
mount --bind "$box/etc/boot_id" /proc/sys/kernel/random/boot_id
mount --bind "$box/home" /root
mount --bind "$box/etc/passwd" /etc/passwd
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs "$box/tmp"
mkdir -p /run/sshd /run/box
mount --bind "$box/bin" /usr/local/bin
mount --bind "$box/tmp" /tmp
number=0
for path in "$@"; do
    number=$((number + 1))
    mkdir -p "$path"
    mount --bind "$box/seen/$number" "$path"
done
[ ! -f "$box/etc/boot.sh" ] || . "$box/etc/boot.sh" # what else the box is
exec /usr/sbin/sshd -D -f "$box/etc/sshd_config" -E "$box/etc/sshd.log"
