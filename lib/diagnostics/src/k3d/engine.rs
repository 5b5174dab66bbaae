//! The program of a container engine, as it is typed.

use std::fmt;

use crate::finding::Command;

/// The program that shows the containers of an engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EngineProgram {
    #[default]
    Docker,
    /// Of the user that runs it.
    Podman,
    /// Of root, whose containers podman shows to no other user.
    PodmanOfRoot,
}

impl EngineProgram {
    /// By where the engine listens, which podman's own units set.
    pub fn at(socket: &str) -> Self {
        if socket.ends_with("/run/podman/podman.sock") {
            Self::PodmanOfRoot
        } else if socket.contains("podman") {
            Self::Podman
        } else {
            Self::Docker
        }
    }

    /// The commands, with those of Docker as this engine's.
    pub fn typed(self, mut commands: Vec<Command>) -> Vec<Command> {
        for command in &mut commands {
            if let Some(rest) = command.strip_prefix("docker ") {
                *command = format!("{self} {rest}").into();
            }
        }
        commands
    }
}

impl fmt::Display for EngineProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::PodmanOfRoot => "sudo podman",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_that_of_the_engine_that_listens_there() {
        for (socket, want) in [
            ("/var/run/docker.sock", "docker"),
            ("/run/user/1000/docker.sock", "docker"),
            ("/Users/me/.docker/run/docker.sock", "docker"),
            ("//./pipe/docker_engine", "docker"),
            ("tcp://pi:2375", "docker"),
            ("/run/podman/podman.sock", "sudo podman"),
            ("unix:///var/run/podman/podman.sock", "sudo podman"),
            ("/proc/1/root/run/podman/podman.sock", "sudo podman"),
            ("/run/user/1000/podman/podman.sock", "podman"),
            ("//./pipe/podman-machine-default", "podman"),
        ] {
            let engine = EngineProgram::at(socket);
            let typed = engine.typed(vec!["docker ps".into(), "k3d cluster list".into()]);
            assert_eq!(typed, [format!("{want} ps").as_str(), "k3d cluster list"], "{socket}");
        }
    }
}
