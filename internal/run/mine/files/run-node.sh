#!/bin/bash
# Runs the test files in the file $2 with jest, vitest or mocha, and writes the names of the tests that
# pass into the file $1. A name that passes in one place of a file and fails in another does not count.
# The first line of command.txt is the tool, the others are the words of its command.
set -uo pipefail
cd "/app/$(cat /tests/project.txt)" || exit 1
mapfile -t words < /tests/command.txt
mapfile -t targets < "$2"
dir=$PWD
while [ "$dir" != / ]; do # also the programs that a workspace has at its root
  PATH=$PATH:$dir/node_modules/.bin
  dir=$(dirname "$dir")
done
json=$1.json
case ${words[0]} in
jest) more=(--ci --coverage=false --watchAll=false --json --outputFile="$json" --runTestsByPath) ;;
vitest) more=(--run --coverage.enabled=false --reporter=json --outputFile="$json") ;;
mocha) more=(--reporter json --reporter-option "output=$json") ;;
esac
env "${words[@]:1}" "${more[@]}" "${targets[@]}" > "$1.out" 2>&1 < /dev/null
tail -c 1000000 "$1.out"
node - "$json" "$1.out" "$1" "${targets[@]}" << 'PROGRAM'
const fs = require('fs')
const path = require('path')
const [json, printed, out, ...targets] = process.argv.slice(2)
const most = 64 << 20 // bytes of results
const read = file => fs.existsSync(file) && fs.statSync(file).size <= most ? fs.readFileSync(file, 'utf8') : ''
let text = read(json)
if (text === '') { // mocha before 9.2 prints its results
  const all = read(printed)
  text = all.slice(Math.max(0, all.lastIndexOf('{\n  "stats": {')))
}
let results
try { results = JSON.parse(text) } catch { console.log('there are no results'); process.exit(0) }
const real = file => { try { return fs.realpathSync(file) } catch { return path.resolve(file) } }
const wanted = new Map(targets.map(target => [real(target), target]))
const passed = new Set(), failed = new Set()
const add = (file, name, passes, fails) => {
  const target = typeof file === 'string' ? wanted.get(real(file)) : targets.length === 1 ? targets[0] : undefined
  if (target === undefined || typeof name !== 'string' || /[\u0000-\u001f\u007f]/.test(name)) return
  if (passes) passed.add(target + ': ' + name)
  if (fails) failed.add(target + ': ' + name)
}
const list = value => Array.isArray(value) ? value.filter(entry => entry !== null && typeof entry === 'object') : []
for (const file of list(results.testResults)) { // jest and vitest
  for (const test of list(file.assertionResults)) {
    const name = typeof test.fullName === 'string' ? test.fullName.trim() : test.fullName
    add(file.name, name, test.status === 'passed', test.status === 'failed')
  }
}
for (const test of list(results.passes)) add(test.file, test.fullTitle, true, false) // mocha
for (const test of list(results.failures)) add(test.file, test.fullTitle, false, true)
fs.writeFileSync(out, [...passed].filter(name => !failed.has(name)).sort().map(name => name + '\n').join(''))
PROGRAM
