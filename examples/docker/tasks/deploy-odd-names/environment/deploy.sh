#!/bin/bash
# Usage: deploy.sh SOURCE TARGET ID
src=$1
target=$2
release=$target/releases/$3

mkdir -p $release
cd $src
for file in $(find . -type f); do
  skip=
  for pattern in .deployignore $(cat .deployignore 2>/dev/null); do
    case $file in ./$pattern) skip=yes ;; esac
  done
  [ $skip ] && continue
  mkdir -p $release/$(dirname $file)
  cp -p $file $release/$file
done

rm -f $target/current
ln -s releases/$3 $target/current

cd $target/releases
for old in $(ls -t | tail -n +4); do
  rm -rf $old
done
