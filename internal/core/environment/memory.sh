# Runs nothing but bash. The arguments are directories of mounts that do not count. What is always in /dev does not count either.
shopt -s nullglob dotglob
declare -A mounts skip
found() { printf %s "$1"; exit 3; }
look() {
	local f
	for f in "${1%/}"/*; do
		[[ -n ${mounts[$f]} ]] && continue
		if [[ -n $2 ]]; then
			case $f in /dev/core | /dev/fd | /dev/initctl | /dev/ptmx | /dev/stdin | /dev/stdout | /dev/stderr) continue ;; esac
			[[ -b $f || -c $f ]] && continue
			if [[ -d $f && ! -L $f ]]; then
				look "$f" "$2"
				continue
			fi
		fi
		found "$f"
	done
}
for at; do skip[$at]=1; done
while read -r _ _ _ _ at rest; do
	printf -v at %b "${at//\\/\\0}"
	rest=${rest#* - }
	mounts[$at]=${rest%% *}
done </proc/self/mountinfo
for at in "${!mounts[@]}"; do
	case $at in /proc/* | /sys/*) continue ;; esac
	[[ -n ${skip[$at]} || ! -d $at ]] && continue
	case ${mounts[$at]}:$at in
	tmpfs:/dev | devtmpfs:/dev) look /dev devices ;;
	tmpfs:* | ramfs:* | hugetlbfs:*) look "$at" "" ;;
	esac
done
exit 0
