// Inputs as those of actions/download-artifact@v4, as far as our workflows use them.
const path = require('node:path')
const core = require('@actions/core')
const { DefaultArtifactClient } = require('@actions/artifact')

// A pattern's only wildcard is *.
function matches(pattern, name) {
  const parts = pattern.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('.*')}$`).test(name)
}

async function main() {
  const client = new DefaultArtifactClient()
  const to = path.resolve(core.getInput('path') || process.env.GITHUB_WORKSPACE)
  const options = {}
  const token = core.getInput('github-token')
  if (token) {
    const [repositoryOwner, repositoryName] = (core.getInput('repository') || process.env.GITHUB_REPOSITORY).split('/')
    const workflowRunId = Number(core.getInput('run-id') || process.env.GITHUB_RUN_ID)
    options.findBy = { token, workflowRunId, repositoryOwner, repositoryName }
  }
  const name = core.getInput('name')
  if (name) {
    const { artifact } = await client.getArtifact(name, options)
    await client.downloadArtifact(artifact.id, { ...options, path: to })
    return
  }
  const pattern = core.getInput('pattern') || '*'
  const { artifacts } = await client.listArtifacts({ latest: true, ...options })
  const wanted = artifacts.filter((artifact) => matches(pattern, artifact.name))
  core.info(`${wanted.length} of ${artifacts.length} artifacts match ${pattern}`)
  for (const artifact of wanted) {
    await client.downloadArtifact(artifact.id, { ...options, path: path.join(to, artifact.name) })
  }
}

main().catch((err) => core.setFailed(err.message))
