//! External programs of the build.
//!
//! Guarantees: the output of a program goes to a log of its own and nowhere else. Failure: the error names the step,
//! the log and its last lines; a missing program is named with its Debian package.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use crate::boot::programs::package;

/// Lines of a log that an error repeats.
const LAST_LINES: usize = 15;

/// Where the steps log.
#[derive(Debug, Clone)]
pub struct BuildLogs {
    directory: PathBuf,
}

impl BuildLogs {
    /// Makes the directory.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn below(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// The log of a step.
    pub fn path(&self, step: &str) -> PathBuf {
        self.directory.join(step.replace(' ', "-") + ".log")
    }

    /// An empty log, for the output of a program that the caller starts.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(&self, step: &str) -> Result<File> {
        let path = self.path(step);
        File::create(&path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// When it cannot be started or fails: with the log's name and its last lines.
    pub fn run(&self, step: &str, command: &mut Command) -> Result<()> {
        let log = self.create(step)?;
        let also = log.try_clone().context("duplicating the log")?;
        command.stdin(Stdio::null()).stdout(log).stderr(also);
        let status = command.status().map_err(|error| cannot_start(command, error))?;
        if status.success() { Ok(()) } else { Err(self.failed(step, &status)) }
    }

    /// The error of a program that failed.
    pub fn failed(&self, step: &str, status: &std::process::ExitStatus) -> anyhow::Error {
        let path = self.path(step);
        let text = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n    ");
        anyhow!("{step} failed ({status}); {} ends with\n    {last}", path.display())
    }
}

/// The standard output of a program.
///
/// # Errors
/// When it cannot be started or fails, with its standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| cannot_start(command, error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}): {}", name(command), output.status, said.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} printed no text", name(command)))
}

/// The error of a program that did not start.
pub fn cannot_start(command: &Command, error: io::Error) -> anyhow::Error {
    let name = name(command);
    if error.kind() == io::ErrorKind::NotFound {
        return anyhow!(
            "{name} is missing: `tests/devstack/prerequisites.sh image` installs it (Debian package {})",
            package(&name).unwrap_or(&name)
        );
    }
    anyhow::Error::new(error).context(format!("cannot start {name}"))
}

fn name(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_names_its_log_and_repeats_its_end() {
        let home = tempfile::tempdir().unwrap();
        let logs = BuildLogs::below(&home.path().join("logs")).unwrap();
        let script = "i=0; while [ $i -lt 30 ]; do echo line $i; i=$((i+1)); done; exit 4";
        let error = logs.run("root file system", Command::new("sh").args(["-c", script])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("root-file-system.log") && text.contains("exit status: 4"), "{text}");
        assert!(text.ends_with("line 29") && !text.contains("line 14\n"), "{text}");
        assert_eq!(fs::read_to_string(logs.path("root file system")).unwrap().lines().count(), 30);
    }

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let mut command = Command::new("/nowhere/mkfs.vfat");
        let text = output(&mut command).unwrap_err().to_string();
        assert!(text.contains("mkfs.vfat is missing") && text.contains("dosfstools"), "{text}");
    }

    #[test]
    fn output_of_a_failed_program_is_an_error_with_its_words() {
        let error = output(Command::new("sh").args(["-c", "echo no such card >&2; exit 1"])).unwrap_err();
        assert!(error.to_string().contains("no such card"), "{error}");
        assert_eq!(output(Command::new("echo").arg("x")).unwrap(), "x\n");
    }
}
