//! Boot loaders that have the kernel's parameters in files of their own.
//!
//! - GRUB: the `linux` lines of `grub.cfg`, which `grub-mkconfig` writes from `/etc/default/grub`. It puts
//!   `BOOT_IMAGE=` in front of the parameters, so that the running kernel says that GRUB started it.
//! - Kairos and others of cOS: GRUB, with parameters of the image and `extra_cmdline` of `/oem/grubenv`.
//! - U-Boot: `extlinux.conf`, which comes first, or the script `boot.scr`, which is compiled; Armbian's takes
//!   `armbianEnv.txt` in.

use super::answer::{BootFile, Loader, LoaderLine, MachineFacts};
use super::files::{BootFileContent, FatFiles};
use crate::{
    finding::{Place, Remedy},
    kernel_cmdline::{Parameter, parameters},
};

const GRUB_CFG: [&str; 2] = ["/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"];
const GRUB_DEFAULT: &str = "/etc/default/grub";
const GRUB_DEFAULTS: &str = "/etc/default/grub.d";
const ENTRIES: &str = "/boot/loader/entries";
const GRUBENV: &str = "/oem/grubenv";
const BOOTARGS: &str = "/etc/cos/bootargs.cfg";
const EXTLINUX: &str = "/boot/extlinux/extlinux.conf";
const U_BOOT_DEFAULT: &str = "/etc/default/u-boot";
/// Variables that the boot scripts of Armbian, of Orange Pi's own images and of `DietPi` take in.
const ENVS: [&str; 3] = ["/boot/armbianEnv.txt", "/boot/orangepiEnv.txt", "/boot/dietpiEnv.txt"];
const BOOT_CMD: &str = "/boot/boot.cmd";
const BOOT_SCR: &str = "/boot/boot.scr";

const ENABLE: &str = "cgroup_enable=memory";
const DISABLE: &str = "cgroup_disable=memory";

/// The files that are read here, without those of [`GRUB_DEFAULTS`] and [`ENTRIES`].
pub const FILES: [&str; 12] = [
    GRUB_CFG[0],
    GRUB_CFG[1],
    GRUB_DEFAULT,
    GRUBENV,
    BOOTARGS,
    EXTLINUX,
    U_BOOT_DEFAULT,
    ENVS[0],
    ENVS[1],
    ENVS[2],
    BOOT_CMD,
    BOOT_SCR,
];
/// The directories all of whose files are.
pub const DIRECTORIES: [&str; 2] = [GRUB_DEFAULTS, ENTRIES];

/// The one that started the running kernel, where its command line says so.
pub(super) fn running(files: &FatFiles, machine: &MachineFacts) -> Option<Loader> {
    let running = parameters(machine.running.as_deref()?, 1);
    let has = |start: &str| running.iter().any(|parameter| parameter.text.starts_with(start));
    if has("cos-img/filename=") || has("rd.cos.") || has("rd.immucore.") {
        return Some(cos(files));
    }
    has("BOOT_IMAGE=").then(|| grub(files))
}

/// The one whose configuration is there.
pub(super) fn present(files: &FatFiles) -> Option<Loader> {
    let has = |path: &&str| files.get(path).is_some();
    if has(&EXTLINUX) {
        Some(extlinux(files))
    } else if let Some(env) = ENVS.into_iter().find(has) {
        Some(armbian(files, env))
    } else if has(&BOOT_SCR) {
        Some(script())
    } else {
        GRUB_CFG.iter().any(has).then(|| grub(files))
    }
}

/// One that the firmware starts, and nothing here is its configuration.
pub(super) fn unknown(place: Place, kernel: &str, file: &BootFile) -> Loader {
    let why =
        format!("`{kernel}` has the firmware start a boot loader whose configuration is not known here");
    let read = match file {
        BootFile::Read(file) => format!("; {} is not what the running kernel got", file.path),
        _ => String::new(),
    };
    Loader {
        name: "the boot loader",
        lines: Vec::new(),
        unsure: Some((place, format!("{why}{read}"))),
        to_enable: Remedy::new(format!("add {ENABLE} to the kernel's parameters in the boot loader")),
        to_stop_disabling: stop("the boot loader", "its configuration", &[]),
    }
}

fn stop(name: &str, file: &str, then: &[&str]) -> Remedy {
    let explain = format!(
        "remove {DISABLE} from the parameters of {name} in {file}; `repair` does not change that file{}",
        if then.is_empty() { "" } else { ", then regenerate its files" }
    );
    let mut remedy = Remedy::new(explain);
    if file.starts_with('/') && file != GRUBENV {
        remedy = remedy.command(format!("sudo sed -i -E 's/[[:space:]]?\\b{DISABLE}\\b//g' {file}"));
    }
    then.iter().fold(remedy, |remedy, command| remedy.command((*command).to_owned()))
}

/// Where each kernel has an entry of its own, which `grub-mkconfig` leaves as it is.
fn stop_in_entries(lines: &[LoaderLine]) -> Option<Remedy> {
    let mut entries = lines.iter().filter(|line| line.place.file.starts_with(ENTRIES)).peekable();
    entries.peek()?;
    let is_ostree = entries.any(|line| line.parameters.contains("ostree="));
    let command = if is_ostree {
        format!("sudo rpm-ostree kargs --delete={DISABLE}")
    } else {
        format!("sudo grubby --update-kernel=ALL --remove-args={DISABLE}")
    };
    let explain = format!(
        "remove {DISABLE} from the entries below {ENTRIES}, which belong to GRUB and are not changed here"
    );
    Some(Remedy::new(explain).command(command))
}

fn is_enabling(text: &str) -> bool {
    parameters(text, 1).iter().any(Parameter::enables_memory)
}

fn numbered(text: &str) -> impl Iterator<Item = (u64, &str)> {
    (1..).zip(text.lines().map(str::trim))
}

fn grub(files: &FatFiles) -> Loader {
    let path = GRUB_CFG.into_iter().find(|path| files.get(path).is_some()).unwrap_or(GRUB_CFG[0]);
    let mut lines = Vec::new();
    let mut unsure = None;
    match files.get(path) {
        Some((_, BootFileContent::Text { text, .. })) => {
            for (number, line) in numbered(text) {
                lines.extend(linux_line(line).map(|it| loader_line(path, number, it)));
                if line == "blscfg" {
                    lines.extend(entries(files));
                }
            }
        }
        Some((_, BootFileContent::Unreadable(why))) => unsure = Some((Place::file(path), why.clone())),
        _ => unsure = Some((Place::file(path), "it is not there".to_owned())),
    }
    if let Some(line) = lines.iter().find(|line| line.parameters.contains('$')) {
        unsure = Some((line.place.clone(), format!("`{}` has variables", line.parameters)));
    } else if lines.is_empty() && unsure.is_none() {
        unsure = Some((Place::file(path), "it has no line that starts a kernel".to_owned()));
    }
    let generate =
        format!("sudo {} -o {path}", if path == GRUB_CFG[1] { "grub2-mkconfig" } else { "grub-mkconfig" });
    let to_stop_disabling =
        stop_in_entries(&lines).unwrap_or_else(|| stop("GRUB", GRUB_DEFAULT, &[&generate]));
    Loader {
        name: "GRUB",
        lines,
        unsure,
        to_enable: grub_to_enable(files, path, &generate),
        to_stop_disabling,
    }
}

fn loader_line(path: &str, number: u64, parameters: &str) -> LoaderLine {
    LoaderLine { place: Place::line(path, number), parameters: parameters.to_owned() }
}

/// The parameters of a line of `grub.cfg` that starts a system; none where it only rescues one.
fn linux_line(line: &str) -> Option<&str> {
    let (command, rest) = line.split_once([' ', '\t'])?;
    let (image, given) = rest.trim_start().split_once([' ', '\t']).unwrap_or((rest.trim(), ""));
    let is_rescue =
        image.contains("memtest") || given.split_whitespace().any(|it| matches!(it, "single" | "recovery"));
    // GRUB's own variable for the screen, which Ubuntu's generator appends.
    let given = given.trim().trim_end_matches("$vt_handoff").trim_end();
    (matches!(command, "linux" | "linux16" | "linuxefi") && !is_rescue).then_some(given)
}

fn entries(files: &FatFiles) -> Vec<LoaderLine> {
    let options = |(path, text): (&str, &str)| {
        let found = numbered(text).find_map(|(number, line)| Some((number, line.strip_prefix("options ")?)));
        found.map(|(number, options)| loader_line(path, number, options))
    };
    files.texts_in(ENTRIES, ".conf").filter_map(options).collect()
}

fn grub_to_enable(files: &FatFiles, path: &str, generate: &str) -> Remedy {
    const VARIABLE: &str = "GRUB_CMDLINE_LINUX";
    let generated = format!("{path} is written by grub-mkconfig and is not changed here");
    let sets = |line: &str| line.strip_prefix(VARIABLE).is_some_and(|rest| rest.starts_with(['=', '_']));
    let is_right = |(file, text): (&str, &str)| {
        let value = |line: &str| line.split_once('=').map(|(_, value)| value.replace(['"', '\''], " "));
        let found = |(number, line): (u64, &str)| {
            (sets(line) && value(line).is_some_and(|value| is_enabling(&value)))
                .then(|| Place::line(file, number))
        };
        numbered(text).find_map(found)
    };
    let mut texts = files.text(GRUB_DEFAULT).into_iter().chain(files.texts_in(GRUB_DEFAULTS, ".cfg"));
    if let Some(place) = texts.find_map(is_right) {
        return Remedy::new(format!("{place} already has {ENABLE}, but {generated}: regenerate it"))
            .command(generate.to_owned());
    }
    let default = files.text(GRUB_DEFAULT).map(|(_, text)| text);
    let quoted = format!("{VARIABLE}=\"");
    let has = |start: &str| default.is_some_and(|text| text.lines().any(|line| line.starts_with(start)));
    let remedy =
        Remedy::new(format!("{generated}: add {ENABLE} to {VARIABLE} in {GRUB_DEFAULT}, then regenerate it"));
    let remedy = if has(&quoted) {
        remedy.command(format!(r#"sudo sed -i -E 's/^{VARIABLE}="/&{ENABLE} /' {GRUB_DEFAULT}"#))
    } else if default.is_some() && has(&format!("{VARIABLE}=")) {
        remedy.command(format!("sudo nano {GRUB_DEFAULT}"))
    } else {
        remedy.command(format!("echo '{VARIABLE}=\"{ENABLE}\"' | sudo tee -a {GRUB_DEFAULT}"))
    };
    remedy.command(generate.to_owned())
}

fn cos(files: &FatFiles) -> Loader {
    let assigned = |path: &'static str, variables: &'static [&'static str]| {
        let text = files.text(path).map_or("", |(_, text)| text);
        numbered(text).filter_map(move |(number, line)| {
            let (variable, value) = line.strip_prefix("set ").unwrap_or(line).split_once('=')?;
            let value = value.trim_matches('"');
            variables.contains(&variable.trim()).then(|| loader_line(path, number, value))
        })
    };
    let lines: Vec<_> = assigned(GRUBENV, &["extra_cmdline", "extra_active_cmdline"])
        .chain(assigned(BOOTARGS, &["kernelcmd"]))
        .filter(|line| is_enabling(&line.parameters))
        .take(1)
        .collect();
    // The first `grubenv` of any partition, and another image may be started.
    let unsure = lines.is_empty().then(|| {
        let why =
            "its variables may be in another partition's grubenv, and each image has parameters of its own";
        (Place::file(GRUBENV), why.to_owned())
    });
    Loader {
        name: "GRUB",
        lines,
        unsure,
        to_enable: Remedy::new(format!(
            "{GRUBENV} belongs to GRUB and is not changed here: add {ENABLE} to its extra_cmdline, next to what is \
             there; for a new installation name it in the cloud-config, at install.grub_options.extra_cmdline"
        ))
        .command(format!("grep -a extra_cmdline {GRUBENV}"))
        .command(format!("sudo grub2-editenv {GRUBENV} set extra_cmdline=\"{ENABLE}\"")),
        to_stop_disabling: stop("GRUB", GRUBENV, &[]),
    }
}

fn extlinux(files: &FatFiles) -> Loader {
    let (mut label, mut default, mut lines) = ("", None, Vec::new());
    let text = files.text(EXTLINUX).map(|(_, text)| text);
    for (number, line) in numbered(text.unwrap_or_default()) {
        let (key, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        match key.to_ascii_lowercase().as_str() {
            "default" => default = Some(value.trim()),
            "label" => label = value.trim(),
            "append" => lines.push((label, loader_line(EXTLINUX, number, value.trim()))),
            _ => {}
        }
    }
    let is_default = |label: &str| default.is_none_or(|default| default == label);
    let lines: Vec<_> =
        lines.into_iter().filter(|(label, _)| is_default(label)).map(|(_, line)| line).collect();
    let unsure =
        lines.is_empty().then(|| (Place::file(EXTLINUX), "it has no `append` for its default".to_owned()));
    let is_generated = files.get(U_BOOT_DEFAULT).is_some();
    let place = lines.first().map(|line| line.place.clone());
    let to_enable = match place {
        _ if is_generated => Remedy::new(format!(
            "{EXTLINUX} is written by u-boot-update and is not changed here: add {ENABLE} to U_BOOT_PARAMETERS in \
             {U_BOOT_DEFAULT}, and have it written again"
        ))
        .command(format!("sudo nano {U_BOOT_DEFAULT}"))
        .command("sudo u-boot-update"),
        Some(Place { line: Some(number), .. }) => {
            Remedy::new(format!("{EXTLINUX} is not changed here: add {ENABLE} to the end of its line {number}"))
                .command(format!("sudo sed -i -E '{number}s/[[:space:]]*$/ {ENABLE}/' {EXTLINUX}"))
        }
        _ => Remedy::new(format!("{EXTLINUX} is not changed here: add a line `append {ENABLE} …` to its default")),
    };
    let file = if is_generated { U_BOOT_DEFAULT } else { EXTLINUX };
    let then: &[&str] = if is_generated { &["sudo u-boot-update"] } else { &[] };
    Loader { name: "U-Boot", lines, unsure, to_enable, to_stop_disabling: stop("U-Boot", file, then) }
}

fn armbian(files: &FatFiles, env: &'static str) -> Loader {
    let text = files.text(env).map_or("", |(_, text)| text);
    let value = |key: &str| {
        numbered(text)
            .filter_map(|(number, line)| Some((number, line.strip_prefix(key)?.strip_prefix('=')?)))
            .last()
    };
    let (extra, board) = (value("extraargs"), value("extraboardargs"));
    let mut given =
        [extra, board].into_iter().flatten().map(|(_, value)| value).collect::<Vec<_>>().join(" ");
    // Armbian's script adds it for docker, unless that is turned off.
    let script = files.text(BOOT_CMD).map(|(_, text)| text);
    let adds = |text: &str| text.contains(ENABLE) && text.contains("docker_optimizations");
    let default = script.and_then(|text| {
        let lines = text.lines().map(str::trim);
        lines.filter_map(|line| line.strip_prefix("setenv docker_optimizations")).map(str::trim).next()
    });
    let wanted = value("docker_optimizations").map(|(_, value)| value).or(default);
    let is_off = wanted.is_some_and(|value| value.trim_matches(['"', '\'']) == "off");
    if script.is_some_and(adds) && !is_off {
        given = format!("{given} {ENABLE}");
    }
    let is_known =
        is_enabling(&given) || script.is_some_and(|text| !text.contains("cgroup_enable") || adds(text));
    let unsure =
        (!is_known).then(|| (Place::file(BOOT_SCR), "it is a compiled script, and may add some".to_owned()));
    let explain =
        format!("{env} belongs to U-Boot and is not changed here: add {ENABLE} to its line extraargs");
    let command = match extra {
        Some((number, _)) => format!("sudo sed -i -E '{number}s/[[:space:]]*$/ {ENABLE}/' {env}"),
        None => format!("echo extraargs={ENABLE} | sudo tee -a {env}"),
    };
    Loader {
        name: "U-Boot",
        lines: vec![loader_line(env, extra.map_or(1, |(number, _)| number), given.trim())],
        unsure,
        to_enable: Remedy::new(explain).command(command),
        to_stop_disabling: stop("U-Boot", env, &[]),
    }
}

fn script() -> Loader {
    let compile = format!("sudo mkimage -C none -A arm64 -T script -d {BOOT_CMD} {BOOT_SCR}");
    Loader {
        name: "U-Boot",
        lines: Vec::new(),
        unsure: Some((Place::file(BOOT_SCR), "it is a compiled script".to_owned())),
        to_enable: Remedy::new(format!(
            "{BOOT_SCR} is compiled from a script and is not changed here: add {ENABLE} to the bootargs of the script, \
             {BOOT_CMD} on most systems, and compile it again"
        ))
        .command(compile.clone()),
        to_stop_disabling: stop("U-Boot", BOOT_CMD, &[&compile]),
    }
}
