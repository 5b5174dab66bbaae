//! Which file the firmware reads the kernel command line from.
//!
//! `cmdline=` names it, and `os_prefix=` goes in front, unless kernel and device tree are not both there with that
//! prefix: then the firmware drops the prefix for all files. A name that starts with `/` takes no prefix.
//! <https://www.raspberrypi.com/documentation/computers/config_txt.html#os_prefix>
//!
//! Where the answer depends on what only the firmware knows there is none: a repair must not edit a file that
//! is not read.

use std::path::Path;

use super::{ConfigTxt, Line, is_on};

/// The default of `cmdline=`.
const DEFAULT: &str = "cmdline.txt";
/// What `kernel=` is by default on one board or another.
const KERNELS: [&str; 5] = ["kernel8.img", "kernel_2712.img", "kernel7l.img", "kernel7.img", "kernel.img"];

/// The answer; paths are relative to the boot partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CmdlineFile {
    File {
        path: String,
        /// Whether it is the one that is read without any setting.
        is_default: bool,
    },
    /// It is not known which.
    Undecided {
        /// The file with the line that decides.
        file: String,
        /// The number of that line.
        line: u64,
        /// Why it is not known.
        why: String,
    },
}

/// Which file it is. `names` lists a directory, which is relative to the boot partition; the partition itself is `""`.
pub fn cmdline_file(config: &ConfigTxt, names: impl Fn(&str) -> Vec<String>) -> CmdlineFile {
    decide(config, names).unwrap_or_else(|line| CmdlineFile::Undecided {
        file: line.file.clone(),
        line: line.number,
        why: match &line.condition {
            Some(condition) => format!("whether `{}` applies is unknown: {condition}", line.text),
            None => format!("`{}` is outside of the boot partition", line.text),
        },
    })
}

fn decide(config: &ConfigTxt, names: impl Fn(&str) -> Vec<String>) -> Result<CmdlineFile, &Line> {
    let setting = config.value("cmdline")?;
    let name = setting.unwrap_or(DEFAULT);
    let path = if name.starts_with('/') {
        name.trim_start_matches('/').to_owned()
    } else {
        format!("{}{name}", prefix(config, names)?)
    };
    // The firmware's file system has no directory above the partition's.
    let escapes = path.split('/').any(|part| part == "..");
    match config.line("cmdline").filter(|_| setting.is_some()).or_else(|| config.line("os_prefix")) {
        Some(line) if escapes => Err(line),
        _ => Ok(CmdlineFile::File { is_default: path == DEFAULT, path }),
    }
}

/// The prefix in force, empty if there is none or it is dropped.
fn prefix(config: &ConfigTxt, names: impl Fn(&str) -> Vec<String>) -> Result<&str, &Line> {
    let prefix = match config.value("os_prefix")? {
        Some(prefix) => prefix,
        None if config.value("upstream_kernel")?.is_some_and(is_on) => "upstream/",
        None => return Ok(""),
    };
    let exists = |prefix: &str, name: &str| {
        let path = name.strip_prefix('/').map_or_else(|| format!("{prefix}{name}"), str::to_owned);
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", &path));
        names(directory).iter().any(|found| found.eq_ignore_ascii_case(name))
    };
    let kernel = config.value("kernel")?;
    let has_kernel = |prefix: &str| match kernel {
        Some(kernel) => exists(prefix, kernel),
        None => KERNELS.into_iter().any(|kernel| exists(prefix, kernel)),
    };
    if !has_kernel("") {
        // Dropped, it would lead to a start without a kernel: what there is to start is behind the prefix.
        return Ok(prefix);
    }
    let tree = if let Some(tree) = config.value("device_tree")? {
        exists(prefix, tree)
    } else {
        let (directory, start) = prefix.rsplit_once('/').unwrap_or(("", prefix));
        let is_tree = |name: &String| {
            name.starts_with(start)
                && Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("dtb"))
        };
        names(directory).iter().any(is_tree)
    };
    Ok(if has_kernel(prefix) && tree { prefix } else { "" })
}
