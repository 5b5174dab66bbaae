//! Docker's contexts: which engine the commands of Docker and k3d use where `DOCKER_HOST` is not set. Docker Desktop,
//! Colima, Rancher Desktop and a rootless Docker each make one.

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::sockets::EngineError;

/// The part of Docker's config.json that is read. It also contains passwords.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DockerConfig {
    current_context: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerContext {
    endpoints: ContextEndpoints,
}

#[derive(Deserialize)]
struct ContextEndpoints {
    docker: DockerEndpoint,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerEndpoint {
    /// Empty for Docker's default.
    #[serde(default)]
    host: String,
}

/// What `DOCKER_HOST` has, else the context that is chosen; `None` where neither chooses.
///
/// # Errors
/// The file of the context cannot be read.
pub fn docker_host() -> Result<Option<String>, EngineError> {
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(host) = variable("DOCKER_HOST") {
        return Ok(Some(host));
    }
    let directory = variable("DOCKER_CONFIG").map(PathBuf::from);
    let directory = directory.or_else(|| Some(crate::platform::home()?.join(".docker")));
    let Some(directory) = directory else { return Ok(None) };
    of_context(&directory, variable("DOCKER_CONTEXT"))
}

/// The host of the context that is `chosen`, else of the one that the configuration in this directory names.
fn of_context(directory: &Path, chosen: Option<String>) -> Result<Option<String>, EngineError> {
    // Without a configuration that can be read, Docker has none either.
    let configured =
        || read::<DockerConfig>(&directory.join("config.json")).unwrap_or_default().current_context;
    let name = chosen.unwrap_or_else(configured);
    if name.is_empty() || name == "default" {
        return Ok(None);
    }
    let id = format!("{:x}", Sha256::digest(&name));
    let file = directory.join("contexts/meta").join(id).join("meta.json");
    match read::<DockerContext>(&file) {
        Ok(context) => Ok(Some(context.endpoints.docker.host).filter(|host| !host.is_empty())),
        Err(error) => Err(EngineError {
            socket: file.display().to_string(),
            why: format!(
                "Docker's context {name} cannot be read: {error}; choose another by `docker context use`"
            ),
            is_late: false,
        }),
    }
}

fn read<T: DeserializeOwned>(file: &Path) -> anyhow::Result<T> {
    Ok(serde_json::from_slice(&fs::read(file)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Colima makes it.
    const COLIMA: &str = r#"{"Name":"colima","Metadata":{"Description":"colima"},
        "Endpoints":{"docker":{"Host":"unix:///Users/me/.colima/default/docker.sock","SkipTLSVerify":false}}}"#;

    #[test]
    fn the_engine_is_that_of_the_chosen_context() {
        let dir = tempfile::tempdir().unwrap();
        // The name's SHA-256.
        let id = "f24fd3749c1368328e2b149bec149cb6795619f244c5b584e844961215dadd16";
        let meta = dir.path().join("contexts/meta").join(id);
        fs::create_dir_all(&meta).unwrap();
        fs::write(meta.join("meta.json"), COLIMA).unwrap();
        let colima = Some("unix:///Users/me/.colima/default/docker.sock");
        for (config, chosen, want) in [
            (r#"{"auths":{},"currentContext":"colima"}"#, None, colima),
            (r#"{"currentContext":"colima"}"#, Some("default"), None),
            (r#"{"currentContext":"default"}"#, None, None),
            (r#"{"currentContext":"gone"}"#, Some("colima"), colima),
            (r#"{"auths":{}}"#, None, None),
            ("no JSON", None, None),
        ] {
            fs::write(dir.path().join("config.json"), config).unwrap();
            let found = of_context(dir.path(), chosen.map(str::to_owned)).unwrap();
            assert_eq!(found.as_deref(), want, "{config} {chosen:?}");
        }
        let error = of_context(dir.path(), Some("gone".to_owned())).unwrap_err();
        assert!(error.why.contains("context gone") && error.socket.ends_with("meta.json"), "{error:?}");
        fs::remove_file(dir.path().join("config.json")).unwrap();
        assert_eq!(of_context(dir.path(), None).unwrap(), None);
    }
}
