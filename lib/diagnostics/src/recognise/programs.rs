//! Programs that this machine cannot run: of another architecture, or with instructions that its processor lacks.

use super::details::{Details, after, has_any, is_plain};
use super::modules;

/// A program for x86-64 that Docker Desktop or QEMU was to run.
pub(super) fn emulated(_: &str) -> Details {
    Details::message(
        "a program in the image is built for x86-64, and the image has not the files that it needs here",
    )
}

/// minikube writes down what Docker says of itself, with the plugins of its client that do not run. A module of the
/// kernel is no program.
pub(super) fn not_executable(line: &str) -> Option<Details> {
    if line.contains("docker info: {") || modules::refused(line).is_some() {
        return None;
    }
    Some(of_a_host(line).map_or_else(of_a_container, built_for_another))
}

/// An image for another processor; or what the kernel takes for no program, where the image is for this one. runc#1773
fn of_a_container() -> Details {
    Details::default()
        .advice(
            "choose an image, a tag or a download for linux/arm64, or build one. If the image is for this processor, what it \
             starts is a script without `#!` in its first line, or a file that was not written completely",
        )
        .command("skopeo inspect --raw docker://IMAGE:TAG")
        .command("docker buildx build --platform linux/arm64 --push -t IMAGE:TAG .")
}

/// The program that a shell, systemd, sudo or another program was to start, by itself and not as that of a container.
fn of_a_host(line: &str) -> Option<&str> {
    const END: &[char] = &[':', ' ', '"'];
    let before = [
        "EXEC spawning ",
        "Failed to execute ",
        "unable to execute ",
        "fork/exec ",
        "zsh: exec format error: ",
    ];
    if let Some(program) = before.into_iter().find_map(|before| after(line, before, END)) {
        return Some(program);
    }
    if let Some((program, _)) = line.split_once(": cannot execute binary file") {
        return program.rsplit(' ').next();
    }
    // dash and busybox: `sh: 1: ./k3s: Exec format error`, `run: 36: exec: /opt/node: Exec format error`.
    let (head, _) = line.split_once(": Exec format error")?;
    let mut parts = head.rsplit(": ");
    let program = parts.next()?;
    let number = parts.find(|part| *part != "exec")?.trim_start_matches("line ");
    number.parse::<u32>().is_ok().then_some(program)
}

fn built_for_another(program: &str) -> Details {
    // systemd says `command` where it does not say which.
    // What is in a volume, its owner chooses: no program of the host looks into it.
    let is_of_a_pod = has_any(program, &["/volumes/", "/proc/", "/run/"]);
    let is_named = is_plain(program) && program != "command" && !is_of_a_pod;
    let program = if is_named { program } else { "PROGRAM" };
    Details::message(format!("{program} is not built for this machine, or is no program"))
        .advice(
            "compare what the machine runs with what the program is built for, and install that build: arm64 needs a \
             64-bit system (`aarch64`, `64`); a 32-bit one needs armhf, or the card flashed with a 64-bit image. If \
             `file` says that it is empty or a text, the download or a write was interrupted, or it is a script without \
             `#!`. Where a container says it, choose an image for linux/arm64",
        )
        .command("uname -m")
        .command("getconf LONG_BIT")
        .command(format!("file -L {program}"))
}

/// A program that was built for a newer processor of the same kind, as a shell or the program itself says it.
pub(super) fn instruction(line: &str) -> Option<Details> {
    // Bash sets the command that it ran behind some blanks.
    let is_of_a_shell = line.split_once("Illegal instruction").is_some_and(|(_, rest)| {
        rest.trim_end().is_empty() || rest.starts_with("  ") || rest.starts_with(" (core dumped)")
    });
    if !is_of_a_shell && !line.contains("SIGILL: illegal instruction") {
        return None;
    }
    if line.split_whitespace().any(|word| word == "k3s:" || word.ends_with("/k3s")) {
        return k3s_of_another(line);
    }
    Some(
        Details::message("a program uses an instruction that this processor does not have")
            .advice(
                "choose an earlier version, or a build for ARMv8.0: MongoDB from 5.0 on and some builds for machine \
                 learning need ARMv8.2, which a Pi 5 has, and a Pi 3 or 4 has not",
            )
            .command("lscpu")
            .hint(),
    )
}

/// The installer of k3s.
pub(super) fn not_installed(line: &str) -> Option<Details> {
    line.contains("armv6").then(|| k3s_of_another("k3s"))?
}

/// k3s itself, on a board whose processor is older than the one it is built for.
pub(super) fn k3s_of_another(line: &str) -> Option<Details> {
    line.contains("k3s").then(|| {
        Details::message("k3s is built for another processor than that of this board")
            .advice(
                "k3s needs ARMv7 or arm64: a Pi 1 and a Pi Zero without a 2 have ARMv6, on which no k3s runs",
            )
            .command("uname -m")
            .command("k3s --version")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_that_a_processor_lacks_is_reported_of_the_program() {
        for line in [
            "Illegal instruction",
            "run.sh: line 1:  7 Illegal instruction     app",
            "SIGILL: illegal instruction",
        ] {
            assert!(instruction(line).unwrap().is_hint, "{line}");
        }
        let of_k3s =
            instruction("run.sh: line 1:  7 Illegal instruction     (core dumped) /usr/local/bin/k3s")
                .unwrap();
        assert!(of_k3s.message.unwrap().starts_with("k3s is built"));
        assert_eq!(instruction("an Illegal instruction was found"), None);
    }

    #[test]
    fn a_program_of_the_host_is_compared_with_the_machine() {
        for (line, want) in [
            ("bash: ./k3s: cannot execute binary file: Exec format error", Some("./k3s")),
            (
                "a.sh: line 2: /usr/bin/helm: cannot execute binary file: Exec format error",
                Some("/usr/bin/helm"),
            ),
            (
                "Failed at step EXEC spawning /usr/local/bin/k3s: Exec format error",
                Some("/usr/local/bin/k3s"),
            ),
            ("sudo: unable to execute ./k3s: Exec format error", Some("./k3s")),
            ("zsh: exec format error: kubectl", Some("kubectl")),
            ("sh: 1: ./k3s: Exec format error", Some("./k3s")),
            ("run: 36: exec: /opt/node: Exec format error", Some("/opt/node")),
            ("bash: $(reboot): cannot execute binary file: Exec format error", Some("PROGRAM")),
            ("k3s.service: Failed to execute command: Exec format error", Some("PROGRAM")),
            ("exec /usr/local/bin/app: exec format error", None),
            ("exec container process `/usr/bin/npm`: Exec format error", None),
            ("standard_init_linux.go:228: exec user process caused: exec format error", None),
        ] {
            let remedy = not_executable(line).unwrap().remedy;
            let command = remedy.and_then(|remedy| remedy.commands.get(2).map(ToString::to_string));
            assert_eq!(command, want.map(|program| format!("file -L {program}")), "{line}");
        }
        assert_eq!(not_executable("modprobe: ERROR: could not insert '88x2bu': Exec format error"), None);
    }
}
