//! When a line of a log was written, as it says itself: syslog and journalctl, k3s and etcd, the kubelet.

/// Where in a line its time is looked for: in front, or behind the name of who wrote it.
const HEAD: usize = 160;

const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Days of a year before each month.
const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// In place of a year that is not said. It has 28 days in February.
const NO_YEAR: u64 = 1;

/// In seconds. Only those of one sort can be compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LineTime {
    /// As the caller says.
    Given(u64),
    /// With the year.
    Dated(u64),
    Yearless(u64),
}

impl LineTime {
    /// The first one that the line has.
    pub fn of(line: &str) -> Option<Self> {
        let line = line.as_bytes();
        let head = line.get(..HEAD).unwrap_or(line);
        let dated = || head.windows(19).find_map(date).map(Self::Dated);
        let yearless = || head.windows(14).find_map(klog).map(Self::Yearless);
        syslog(head).map(Self::Yearless).or_else(dated).or_else(yearless)
    }

    /// How many seconds after the time `before` it is, where that is known.
    pub fn since(self, before: Self) -> Option<u64> {
        match (self, before) {
            (Self::Given(now), Self::Given(then))
            | (Self::Dated(now), Self::Dated(then))
            | (Self::Yearless(now), Self::Yearless(then)) => Some(now.saturating_sub(then)),
            _ => None,
        }
    }
}

/// `Nov  5 10:00:00 pi k3s[812]: …`
fn syslog(text: &[u8]) -> Option<u64> {
    let name = text.get(..3)?;
    let month = MONTHS.iter().position(|month| *month == name)?;
    let day = text.get(4..6)?.trim_ascii_start();
    seconds(NO_YEAR, u64::try_from(month).ok()? + 1, number(day)?, text.get(7..15)?)
}

/// `2026-11-05T10:00:00`, or with a space.
fn date(text: &[u8]) -> Option<u64> {
    let has = |at: usize, byte: u8| text.get(at) == Some(&byte);
    if !has(4, b'-') || !has(7, b'-') || !(has(10, b'T') || has(10, b' ')) {
        return None;
    }
    seconds(number(text.get(..4)?)?, number(text.get(5..7)?)?, number(text.get(8..10)?)?, text.get(11..19)?)
}

/// `E1105 10:00:00`
fn klog(text: &[u8]) -> Option<u64> {
    let is_level = text.first().is_some_and(|level| b"IWEF".contains(level));
    if !is_level || text.get(5) != Some(&b' ') {
        return None;
    }
    seconds(NO_YEAR, number(text.get(1..3)?)?, number(text.get(3..5)?)?, text.get(6..14)?)
}

/// Of a day, and the `clock` of it: `10:00:00`.
fn seconds(year: u64, month: u64, day: u64, clock: &[u8]) -> Option<u64> {
    let part = |at: usize| number(clock.get(at..at + 2)?);
    if clock.get(2) != Some(&b':') || clock.get(5) != Some(&b':') {
        return None;
    }
    let of_day = part(0)? * 3_600 + part(3)? * 60 + part(6)?;
    let before = BEFORE.get(usize::try_from(month.checked_sub(1)?).ok()?)?;
    let leap = u64::from(year.is_multiple_of(4) && month > 2);
    let days = year * 365 + year.div_ceil(4) + before + leap + day;
    Some(days * 86_400 + of_day)
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
        Some(sum * 10 + u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_between_two_lines_of_one_sort_is_known_across_days_and_months() {
        let klog = r#"E1105 10:00:00.123456    2217 controller.go:145] "Failed""#;
        for (before, now, seconds) in [
            (klog, r#"W1105 10:00:07.123456    2217 a.go:1] "b""#, Some(7)),
            ("Nov  5 23:59:58 pi k3s[1]: a", "Nov 06 00:00:01 pi k3s[1]: b", Some(3)),
            (
                r#"time="2028-02-29T23:00:00Z" level=error"#,
                r#"time="2028-03-01T01:00:00Z" level=error"#,
                Some(7_200),
            ),
            (r#"{"level":"warn","ts":"2026-12-31T23:59:59.5Z"}"#, "2027-01-01 00:00:00 +0000 UTC a", Some(1)),
            ("Nov  5 10:00:01 pi k3s[1]: E1105 09:00:00.1 1 a.go:1] a", "Nov  5 10:00:00 pi b", Some(0)),
            (klog, "Nov  5 10:00:00 pi a", Some(0)),
            (klog, "2026-11-05T10:00:00Z a", None),
        ] {
            let [before, now] = [before, now].map(|line| LineTime::of(line).unwrap());
            assert_eq!(now.since(before), seconds, "{before:?} {now:?}");
        }
        for line in ["", "[    4.1] mmc0: x", "E1305 10:00:00.1", "Nov", "2026-11-05", "Nov 5é 10:00:00 é"]
        {
            assert_eq!(LineTime::of(line), None, "{line}");
        }
    }
}
