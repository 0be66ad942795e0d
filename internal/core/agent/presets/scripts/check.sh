
# Package managers may choose another version without an error, for example for an old Node.js.
if [ "$version_option" != none ] && [ "$version" != latest ] && ! is_installed "$home/bin/$command"; then
  echo "$command $version was to be installed; it reports: $("$home/bin/$command" ${version_option:---version} 2>&1 </dev/null | head -n 3)" >&2
  exit 1
fi
echo "$command $version is installed in $home."
