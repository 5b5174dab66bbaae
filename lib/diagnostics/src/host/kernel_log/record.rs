//! One record of `/dev/kmsg`: `priority,sequence,microseconds,flags;text` (the kernel's `dev-kmsg` ABI).

/// Facility of the kernel itself.
const KERNEL: u64 = 0;
/// Facility that the kernel gives to what a process writes to `/dev/kmsg` without one.
const USER: u64 = 1;

/// A record that can be the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KernelRecord<'a> {
    /// Its number, counted since the start.
    pub(super) sequence: u64,
    /// Microseconds since the start.
    pub(super) at: u64,
    pub(super) text: &'a str,
}

impl<'a> KernelRecord<'a> {
    /// Reads a line. The lines after a record's first begin with a blank: they name its device, and are no record.
    pub(super) fn read(line: &'a str) -> Option<Self> {
        let (head, text) = line.split_once(';')?;
        let mut fields = head.split(',');
        let mut number = || fields.next()?.parse::<u64>().ok();
        let (priority, sequence, at) = (number()?, number()?, number()?);
        let is_ours = match priority >> 3 {
            KERNEL => true,
            // What an administrator writes there counts. What journald forwards is any program's, and has its
            // name in front.
            USER => !names_a_program(text),
            _ => false,
        };
        is_ours.then_some(Self { sequence, at, text })
    }
}

/// `name[4711]: `, or `name: ` of a single word as syslog has it, are not distinguished from a driver's: only
/// the former is.
fn names_a_program(text: &str) -> bool {
    let Some((name, _)) = text.split_once("]:") else { return false };
    name.rsplit_once('[').is_some_and(|(name, pid)| {
        !name.contains(' ') && !pid.is_empty() && pid.bytes().all(|c| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_line() {
        for (line, want) in [
            ("6,339,5140900,-;NET: Registered PF_INET6", Some((339, 5_140_900, "NET: Registered PF_INET6"))),
            // Fields may be added after the flags.
            ("3,7,12,-,caller=T1;mmc0: error; again", Some((7, 12, "mmc0: error; again"))),
            // Facility 1: written by hand. 3: systemd, before the journal runs.
            ("11,8,13,-;mmc0: timeout", Some((8, 13, "mmc0: timeout"))),
            ("11,8,13,-;ncat[4711]: mmc0: timeout", None),
            ("30,9,14,-;systemd[1]: Remounting filesystem read-only", None),
            // A device's line, as far as a record of its own.
            (" SUBSYSTEM=mmc", None),
            (" DEVICE=+mmc:mmc0:59b4", None),
            ("", None),
            (";", None),
            ("x,1,2,-;text", None),
            ("3,1;text", None),
            ("-3,1,2,-;text", None),
            ("3,99999999999999999999999,2,-;text", None),
            ("no record at all", None),
        ] {
            let read = KernelRecord::read(line).map(|record| (record.sequence, record.at, record.text));
            assert_eq!(read, want, "{line}");
        }
    }
}
