// Inputs as those of actions/upload-artifact@v4, as far as our workflows use them. The library checks names and paths.
const fs = require('node:fs')
const path = require('node:path')
const core = require('@actions/core')
const glob = require('@actions/glob')
const { DefaultArtifactClient } = require('@actions/artifact')

// The folder that all files are in; a folder that is named is uploaded without itself.
function above(files) {
  let dir = path.dirname(files[0])
  while (!files.every((file) => file.startsWith(dir + path.sep))) dir = path.dirname(dir)
  return dir
}

async function main() {
  const client = new DefaultArtifactClient()
  const name = core.getInput('name') || 'artifact'
  const from = core.getInput('path', { required: true })
  const globber = await glob.create(from, { excludeHiddenFiles: true })
  const files = (await globber.glob()).filter((file) => !fs.statSync(file).isDirectory())
  if (files.length === 0) {
    const text = `No files were found with the provided path: ${from}. No artifacts will be uploaded.`
    const way = core.getInput('if-no-files-found') || 'warn'
    if (way === 'error') core.setFailed(text)
    else if (way === 'warn') core.warning(text)
    else core.info(text)
    return
  }
  if (core.getInput('overwrite') === 'true') {
    await client.deleteArtifact(name).catch((err) => core.info(`nothing to delete: ${err.message}`))
  }
  const searched = globber.getSearchPaths()
  const root = searched.length === 1 && fs.statSync(searched[0]).isDirectory() ? searched[0] : above(files)
  const days = Number(core.getInput('retention-days') || 0)
  const { id, size } = await client.uploadArtifact(name, files, root, days > 0 ? { retentionDays: days } : {})
  core.info(`Artifact ${name} has ${files.length} files, ${size} bytes`)
  core.setOutput('artifact-id', id)
}

main().catch((err) => core.setFailed(err.message))
