//! Conditional filters: which of them apply to a board.
//!
//! <https://www.raspberrypi.com/documentation/computers/config_txt.html#conditional-filters>

/// What decides about filters and can be known on the running system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hardware {
    /// `/proc/device-tree/model`, without its NUL.
    pub model: Option<String>,
    /// `/proc/device-tree/serial-number`.
    pub serial: Option<u64>,
    /// Whether it is the start that `reboot "0 tryboot"` asks for: set for one start and cleared by it.
    pub is_tryboot: bool,
    /// The partition that has the file, from 1.
    pub partition: Option<u32>,
}

/// Boards by the name in their device tree, the model filters that they see, and their type in the revision code.
/// The filters are those of the documentation's table, "also sees" followed to its end; the types are those of
/// <https://www.raspberrypi.com/documentation/computers/raspberry-pi.html#new-style-revision-codes>.
/// Of several names the longest one counts.
const MODELS: [(&str, &[&str], u32); 26] = [
    ("Raspberry Pi Model A", &["pi1"], 0x0),
    ("Raspberry Pi Model B", &["pi1"], 0x1),
    ("Raspberry Pi Model A Plus", &["pi1"], 0x2),
    ("Raspberry Pi Model B Plus", &["pi1"], 0x3),
    ("Raspberry Pi Compute Module", &["pi1", "cm1"], 0x6),
    ("Raspberry Pi 2 Model B", &["pi2"], 0x4),
    ("Raspberry Pi 3 Model B", &["pi3"], 0x8),
    ("Raspberry Pi 3 Model B Plus", &["pi3", "pi3+"], 0xd),
    ("Raspberry Pi 3 Model A Plus", &["pi3", "pi3+"], 0xe),
    ("Raspberry Pi Compute Module 3", &["pi3", "cm3"], 0xa),
    ("Raspberry Pi Compute Module 3 Plus", &["pi3", "pi3+", "cm3+"], 0x10),
    ("Raspberry Pi 4 Model B", &["pi4"], 0x11),
    ("Raspberry Pi 400", &["pi4", "pi400"], 0x13),
    ("Raspberry Pi Compute Module 4", &["pi4", "cm4"], 0x14),
    ("Raspberry Pi Compute Module 4S", &["pi4", "cm4s"], 0x15),
    ("Raspberry Pi 5", &["pi5"], 0x17),
    ("Raspberry Pi 5 Model B", &["pi5"], 0x17),
    ("Raspberry Pi 500", &["pi5", "pi500"], 0x19),
    // Its type is that of the 500.
    ("Raspberry Pi 500+", &["pi5", "pi500"], 0x19),
    ("Raspberry Pi Compute Module 5", &["pi5", "cm5"], 0x18),
    ("Raspberry Pi Compute Module 5 Lite", &["pi5", "cm5"], 0x1a),
    ("Raspberry Pi Zero", &["pi0"], 0x9),
    ("Raspberry Pi Zero W", &["pi0", "pi0w"], 0xc),
    ("Raspberry Pi Zero 2", &["pi0", "pi0w", "pi02"], 0x12),
    ("Raspberry Pi Zero 2 W", &["pi0", "pi0w", "pi02"], 0x12),
    ("Raspberry Pi Compute Module 0", &["pi0", "pi0w", "pi02", "cm0"], 0x1b),
];

/// Variables of the expression filter, each known to the firmware at power-on only; but see [`boot_partition`].
const VARIABLES: [&str; 6] =
    ["boot_arg1", "boot_count", "boot_partition", "bootvar0", "cust_otp", "partition"];

/// Types of filters: one of each is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterKind {
    None,
    /// A model, or a board type: the documentation has both in one table.
    Model,
    Tryboot,
    Edid,
    Serial,
    Gpio,
    Hdmi,
    Expression,
}

const KINDS: usize = 8;

/// Whether the lines below a filter apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Applies {
    Yes,
    No,
    /// Not to be known here; the reason.
    Unknown(String),
}

/// The filters in force.
#[derive(Debug)]
pub(super) struct Filters<'a> {
    hardware: &'a Hardware,
    verdicts: [Applies; KINDS],
    /// A filter that is in no documentation, or one in a file that could not be read.
    doubt: Option<String>,
}

impl<'a> Filters<'a> {
    pub(super) const fn new(hardware: &'a Hardware) -> Self {
        Self { hardware, verdicts: [const { Applies::Yes }; KINDS], doubt: None }
    }

    /// Whether the lines below apply.
    pub(super) fn verdict(&self) -> Applies {
        if self.verdicts.contains(&Applies::No) {
            return Applies::No;
        }
        let unknown = self.verdicts.iter().find(|verdict| matches!(verdict, Applies::Unknown(_)));
        match &self.doubt {
            Some(why) => Applies::Unknown(why.clone()),
            None => unknown.cloned().unwrap_or(Applies::Yes),
        }
    }

    /// A line that starts with `[`.
    pub(super) fn enter(&mut self, line: &str) {
        let name = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or_default();
        if name == "all" {
            *self = Self::new(self.hardware);
        } else if let Some((kind, verdict)) = verdict(name, self.hardware) {
            self.verdicts[kind as usize] = verdict;
        } else {
            self.doubt(&format!("{line} is not a filter of Raspberry Pi's documentation"));
        }
    }

    /// From here to the next `[all]` any filter may be in force. It may have replaced one that does not apply, so that
    /// this is not known either; of `[none]` there is only one.
    pub(super) fn doubt(&mut self, why: &str) {
        for (kind, verdict) in self.verdicts.iter_mut().enumerate() {
            if kind != FilterKind::None as usize && *verdict == Applies::No {
                *verdict = Applies::Unknown(why.to_owned());
            }
        }
        self.doubt = Some(why.to_owned());
    }
}

/// `None`: no filter that is documented.
fn verdict(name: &str, hardware: &Hardware) -> Option<(FilterKind, Applies)> {
    let at_power_on = |what: &str| Applies::Unknown(format!("[{name}] depends on {what}"));
    let board = hardware.model.as_deref().and_then(board);
    let of_board = |is: &dyn Fn(&[&str], u32) -> bool| match board {
        Some((_, filters, board_type)) if is(filters, board_type) => Applies::Yes,
        Some(_) => Applies::No,
        None => at_power_on("the model, which is unknown here"),
    };
    if name == "none" {
        Some((FilterKind::None, Applies::No))
    } else if name == "tryboot" {
        Some((FilterKind::Tryboot, if hardware.is_tryboot { Applies::Yes } else { Applies::No }))
    } else if is_model(name) {
        Some((FilterKind::Model, of_board(&|filters, _| filters.contains(&name))))
    } else if let Some(wanted) = name.strip_prefix("board-type=") {
        let wanted = number(wanted)?;
        Some((FilterKind::Model, of_board(&|_, board_type| u64::from(board_type) == wanted)))
    } else if name.starts_with("0x") {
        Some((FilterKind::Serial, serial(number(name)?, hardware.serial, at_power_on)))
    } else if name.starts_with("EDID=") {
        Some((FilterKind::Edid, at_power_on("the monitor that is connected at power-on")))
    } else if let Some(pin) = name.strip_prefix("gpio") {
        let (pin, level) = pin.split_once('=')?;
        number(pin).filter(|_| matches!(level, "0" | "1"))?;
        Some((FilterKind::Gpio, at_power_on("the level of a pin at power-on")))
    } else if matches!(name, "HDMI:0" | "HDMI:1") {
        // For settings of a port; what it does to others is not documented.
        Some((FilterKind::Hdmi, at_power_on("an HDMI port")))
    } else if let Some((wanted, partition)) = boot_partition(name).zip(hardware.partition) {
        let verdict = if wanted == u64::from(partition) { Applies::Yes } else { Applies::No };
        Some((FilterKind::Expression, verdict))
    } else {
        let (variable, _) = name.split_once(['=', '&', '<', '>'])?;
        let variable = variable
            .strip_suffix(|digit| matches!(digit, '0'..='7') && variable.starts_with("cust_otp"))
            .unwrap_or(variable);
        VARIABLES
            .contains(&variable)
            .then(|| (FilterKind::Expression, at_power_on("a variable that only the firmware knows")))
    }
}

/// The partition that `[boot_partition=N]` names: the one that `config.txt` is read from, as two slots with the same
/// files have it.
fn boot_partition(name: &str) -> Option<u64> {
    number(name.strip_prefix("boot_partition=")?)
}

/// A filter of the table, or that of a model to come: `pi6`.
fn is_model(name: &str) -> bool {
    let digits = name.strip_prefix("pi").or_else(|| name.strip_prefix("cm"));
    MODELS.iter().any(|(_, filters, _)| filters.contains(&name))
        || digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn board(model: &str) -> Option<(&'static str, &'static [&'static str], u32)> {
    let is =
        |name: &str| model.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    MODELS.into_iter().filter(|(name, ..)| is(name)).max_by_key(|(name, ..)| name.len())
}

/// The documentation's filter is the last eight digits of the serial number; of longer ones it says nothing.
fn serial(wanted: u64, serial: Option<u64>, unknown: impl Fn(&str) -> Applies) -> Applies {
    let low = |number: u64| number & u64::from(u32::MAX);
    match serial {
        None => unknown("the serial number, which is unknown here"),
        Some(serial) if low(serial) != low(wanted) => Applies::No,
        Some(_) if wanted == low(wanted) => Applies::Yes,
        Some(_) => unknown("more than the last eight digits of a serial number"),
    }
}

/// Decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Option<u64> {
    let text = blank_trimmed(text);
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Without blanks, as the firmware knows them, at both ends.
pub(super) fn blank_trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r'])
}
