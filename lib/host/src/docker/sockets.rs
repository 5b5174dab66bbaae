//! Where the container engine of this machine listens: sockets on Linux and macOS, pipes on Windows.

use std::path::{Path, PathBuf};

/// The engine cannot be asked.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct EngineError {
    /// Its socket, or what replaces it.
    pub socket: String,
    pub why: String,
    /// No answer came in time: it may only be slow.
    pub is_late: bool,
}

/// Where engines listen on one system.
pub struct Sockets {
    /// How `DOCKER_HOST` begins with one of this machine, and continues.
    named: (&'static str, &'static str),
    /// Those that root or a group of this machine may ask.
    system: [&'static str; 2],
    /// The same below the runtime directory of a user without rights of its own.
    rootless: [&'static str; 2],
    /// Docker Desktop's, below the home directory.
    pub desktop: Option<&'static str>,
}

const UNIX: Sockets = Sockets {
    named: ("unix://", "/PATH"),
    system: ["/var/run/docker.sock", "/run/podman/podman.sock"],
    rootless: ["docker.sock", "podman/podman.sock"],
    desktop: if cfg!(target_os = "macos") { Some(".docker/run/docker.sock") } else { None },
};
const WINDOWS: Sockets = Sockets {
    named: ("npipe://", "//./pipe/NAME"),
    system: ["//./pipe/docker_engine", "//./pipe/podman-machine-default"],
    ..UNIX
};
pub const HERE: Sockets = if cfg!(windows) { WINDOWS } else { UNIX };

/// The runtime directory of the user who typed `sudo`, which takes the variable that names it away.
pub fn of_sudo(uid: &str) -> Option<PathBuf> {
    let uid: u32 = uid.parse().ok().filter(|uid| *uid != 0)?;
    Some(format!("/run/user/{uid}").into())
}

/// Where the engine listens, by what exists.
pub fn socket(
    sockets: &Sockets,
    docker_host: Option<&str>,
    runtime_dir: Option<&Path>,
    desktop: Option<PathBuf>,
    exists: impl Fn(&Path) -> bool,
) -> Result<Option<PathBuf>, EngineError> {
    let failed =
        |why: &str, host: &str| EngineError { socket: host.to_owned(), why: why.to_owned(), is_late: false };
    if let Some(host) = docker_host.filter(|host| !host.is_empty()) {
        let (scheme, rest) = sockets.named;
        let path = host.strip_prefix(scheme).ok_or_else(|| {
            let why = format!(
                "DOCKER_HOST or Docker's context names it, and it is not a socket of this machine: run the command \
                 there, or set DOCKER_HOST={scheme}{rest}"
            );
            failed(&why, host)
        })?;
        return if exists(Path::new(path)) {
            Ok(Some(path.into()))
        } else {
            Err(failed("DOCKER_HOST or Docker's context names it, but it does not exist", host))
        };
    }
    let rootless = runtime_dir.into_iter().flat_map(|dir| sockets.rootless.map(|socket| dir.join(socket)));
    let system = sockets.system.map(PathBuf::from).into_iter();
    Ok(system.chain(rootless).chain(desktop).find(|path| exists(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_that_is_named_else_the_first_that_listens() {
        let all = [
            "/var/run/docker.sock",
            "/run/podman/podman.sock",
            "/run/user/1000/docker.sock",
            "/x.sock",
            "//./pipe/docker_engine",
            "//./pipe/x",
        ];
        for (host, there, want) in [
            (None, &all[..], Ok(Some("/var/run/docker.sock"))),
            (Some(""), &all[1..], Ok(Some("/run/podman/podman.sock"))),
            (None, &all[2..], Ok(Some("/run/user/1000/docker.sock"))),
            (None, &all[3..4], Ok(None)),
            (Some("unix:///x.sock"), &all[..], Ok(Some("/x.sock"))),
            (Some("unix:///x.sock"), &all[..3], Err("does not exist")),
            (Some("tcp://pi:2375"), &all[..], Err("not a socket of this machine")),
            (Some("ssh://pi"), &all[..], Err("not a socket of this machine")),
            (Some("npipe:////./pipe/x"), &all[..], Err("DOCKER_HOST=unix:///PATH")),
        ] {
            is_found(&UNIX, host, there, want);
        }
        for (host, there, want) in [
            (None, &all[4..], Ok(Some("//./pipe/docker_engine"))),
            (Some("npipe:////./pipe/x"), &all[..], Ok(Some("//./pipe/x"))),
            (Some("npipe:////./pipe/x"), &all[..5], Err("does not exist")),
            (Some("unix:///x.sock"), &all[..], Err("DOCKER_HOST=npipe:////./pipe/NAME")),
        ] {
            is_found(&WINDOWS, host, there, want);
        }
        let desktop = PathBuf::from("/Users/me/.docker/run/docker.sock");
        let found = socket(&UNIX, None, None, Some(desktop.clone()), |path| path == desktop);
        assert_eq!(found.unwrap().as_deref(), Some(&*desktop));
    }

    #[test]
    fn the_rootless_engine_of_who_typed_sudo_is_found() {
        assert_eq!(of_sudo("1000"), Some("/run/user/1000".into()));
        assert_eq!([of_sudo("0"), of_sudo(""), of_sudo("../tmp")], [None, None, None]);
    }

    fn is_found(sockets: &Sockets, host: Option<&str>, there: &[&str], want: Result<Option<&str>, &str>) {
        let exists = |path: &Path| there.iter().any(|there| Path::new(there) == path);
        match (socket(sockets, host, Some(Path::new("/run/user/1000")), None, exists), want) {
            (Ok(found), Ok(want)) => assert_eq!(found.as_deref(), want.map(Path::new), "{host:?}"),
            (Err(error), Err(want)) => assert!(error.why.contains(want), "{host:?}: {error}"),
            (found, want) => panic!("{host:?}: {found:?}, not {want:?}"),
        }
    }
}
