//! The Wi-Fi: one network, with its country and its password.
//!
//! Without its country a radio may send on few channels only, and on none that
//! some routers use: a network without one is refused. So is a network without
//! a password. The password is a secret, which no message repeats.

use std::ops::Range;

use super::{
    fault::{Faults, Mistake, shown},
    secret::{self, SecretSetting},
    section::Section,
};

/// Keys that say nothing without `ssid`.
const COMPANIONS: [&str; 3] = ["country", "password", "hidden"];
/// What a network may be called at most, in bytes.
pub(super) const LONGEST_SSID: usize = 32;
/// ISO 3166-1, as assigned.
const COUNTRIES: &str = "\
    AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ \
    CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO \
    FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE \
    JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO \
    MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW \
    PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM \
    TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW";

/// Whether this is a code of ISO 3166-1.
pub(super) fn is_country(text: &str) -> bool {
    COUNTRIES.split_whitespace().any(|country| country == text)
}

/// What is asked of the Wi-Fi.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wifi {
    /// Where the card is used, two capital letters.
    pub country: String,
    pub ssid: String,
    /// Its password, or the key that follows from it; never [`SecretSetting::None`] in a file without a fault.
    pub password: SecretSetting,
    /// Whether the network does not say its name.
    pub hidden: bool,
    /// Line of `ssid`, from 1.
    pub line: u64,
    /// Its column, from 1.
    pub column: u64,
}

/// The network, and the position of a password to import.
pub(super) fn read(section: &Section<'_>, faults: &mut Faults<'_>) -> (Option<Wifi>, Option<Range<usize>>) {
    let place = section.place_of("ssid");
    for key in COMPANIONS {
        let own = section.place_of(key);
        match (&place, &own) {
            (Some(_), None) if key != "hidden" => {
                let remedy = missing(key);
                faults.add_at(place.as_ref(), format!("`ssid` without a `{key}`"), remedy);
            }
            (None, Some(_)) => {
                let remedy = format!("add `ssid`, the name of the network, or remove `{key}`");
                faults.add_at(own.as_ref(), format!("`{key}` without an `ssid`"), remedy);
            }
            _ => {}
        }
    }
    let country = section.text("country", faults);
    let country = country.and_then(|text| faults.take(text.span.as_ref(), self::country(text.value)));
    let ssid = section.text("ssid", faults);
    let ssid = ssid.and_then(|text| faults.take(text.span.as_ref(), self::ssid(text.value)));
    let password = section.text("password", faults);
    let (password, password_at) =
        password.map(|text| secret::read(text, password_mistake, faults)).unwrap_or_default();
    let hidden = section.truth("hidden", faults).unwrap_or_default();
    let (line, column) = faults.place(place.as_ref());
    let wifi =
        country.zip(ssid).map(|(country, ssid)| Wifi { country, ssid, password, hidden, line, column });
    (wifi, password_at)
}

fn missing(key: &str) -> &'static str {
    if key == "country" {
        "add `country`, two capital letters such as \"DE\": they decide on which channels the radio may send"
    } else {
        "add `password`, or `password = \"\"` for the one that was imported earlier"
    }
}

fn country(text: &str) -> Result<String, Mistake> {
    let is_assigned = |code: &str| COUNTRIES.split(' ').any(|known| known == code);
    if is_assigned(text) {
        return Ok(text.to_owned());
    }
    let capitals = text.trim().to_ascii_uppercase();
    let remedy = if capitals == "UK" {
        "write \"GB\"".to_owned()
    } else if is_assigned(&capitals) {
        format!("write \"{capitals}\"")
    } else {
        "write the two capital letters of ISO 3166, such as \"DE\", \"GB\" or \"US\"".to_owned()
    };
    Err(Mistake::new(format!("the country {} is unknown", shown(text)), remedy))
}

fn ssid(text: &str) -> Result<String, Mistake> {
    let wrong =
        |why: &str, remedy: &str| Err(Mistake::new(format!("the network {} {why}", shown(text)), remedy));
    if text.is_empty() {
        wrong("has no name", "write the SSID as your phone shows it, such as \"attic\"")
    } else if text.len() > LONGEST_SSID {
        wrong("is longer than 32 bytes", "write the SSID as your phone shows it")
    } else if text.chars().any(char::is_control) || text.contains('\\') {
        // wpa_supplicant reads a backslash as the begin of an escape, and not every netplan writes it as one.
        wrong(
            "has control characters or a backslash",
            "give the network another name, or set it in a file of /etc/netplan",
        )
    } else {
        Ok(text.to_owned())
    }
}

/// Whether it has 8 to 63 bytes, as a password, or is the key as 64 digits.
pub(super) fn has_password_length(text: &str) -> bool {
    (8..=63).contains(&text.len()) || text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What IEEE 802.11 takes: a password of 8 to 63 printable characters of ASCII, or the key as 64 digits.
fn password_mistake(text: &str) -> Option<Mistake> {
    const REMEDY: &str =
        "write the password (8 to 63 printable ASCII characters) or the key as 64 hexadecimal digits";
    let wrong = if !text.chars().all(|c| matches!(c, ' '..='~')) {
        "`password` has characters other than the printable ones of ASCII"
    } else if text.len() < 8 {
        "`password` is shorter than 8 characters"
    } else if !has_password_length(text) {
        "`password` is longer than 63 characters and no key of 64 hexadecimal digits"
    } else {
        return None;
    };
    Some(Mistake::new(wrong, REMEDY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn countries_are_two_letters_each_and_in_order() {
        let all: Vec<_> = COUNTRIES.split(' ').collect();
        assert_eq!(all.len(), 249);
        assert!(all.iter().all(|code| code.len() == 2 && code.bytes().all(|b| b.is_ascii_uppercase())));
        assert!(all.is_sorted() && all.windows(2).all(|two| two[0] != two[1]));
    }

    #[test]
    fn a_country_is_one_of_the_list() {
        for good in ["DE", "GB", "US", "ZW", "AD"] {
            assert_eq!(country(good).unwrap(), good);
        }
        for (text, remedy) in [
            ("de", "write \"DE\""),
            (" DE ", "write \"DE\""),
            ("UK", "write \"GB\""),
            ("uk", "write \"GB\""),
            ("EN", "ISO 3166"),
            ("DEU", "ISO 3166"),
            ("DE AT", "ISO 3166"),
            ("00", "ISO 3166"),
            ("Germany", "ISO 3166"),
            ("", "ISO 3166"),
            (" ", "ISO 3166"),
        ] {
            let mistake = country(text).unwrap_err();
            assert!(mistake.remedy.contains(remedy), "{text:?}: {mistake:?}");
        }
    }

    #[test]
    fn names_of_networks() {
        for good in ["attic", "Corner House", "Zum Löwen", "a\"b", " a", "#1: {x}", "网络", &"a".repeat(32)]
        {
            assert_eq!(ssid(good).unwrap(), good);
        }
        for (text, why) in [
            ("", "has no name"),
            (&*"a".repeat(33), "longer than 32"),
            (&"ö".repeat(17), "longer than 32"),
            ("a\nb", "control characters"),
            ("a\u{0}b", "control characters"),
            ("a\\b", "backslash"),
        ] {
            let mistake = ssid(text).unwrap_err();
            assert!(mistake.message.contains(why), "{text:?}: {mistake:?}");
        }
    }

    #[test]
    fn passwords() {
        let key = "0123456789abcdefABCDEF".repeat(3)[..64].to_owned();
        for good in ["12345678", "correct horse", "a\"b\\c#d'e", &"x".repeat(63), &key] {
            assert_eq!(password_mistake(good), None, "{good}");
        }
        for (text, why) in [
            ("1234567", "shorter than 8"),
            (&*"x".repeat(64), "longer than 63"),
            (&format!("{key}0"), "longer than 63"),
            ("pässwörter", "of ASCII"),
            ("hunter2\nx", "of ASCII"),
            ("hunter2\u{7f}", "of ASCII"),
        ] {
            let mistake = password_mistake(text).unwrap();
            assert!(mistake.message.contains(why), "{text:?}: {mistake:?}");
        }
    }

    proptest! {
        #[test]
        fn no_mistake_repeats_a_password(text in "[A-Z]{4}\\PC{0,80}") {
            if let Some(mistake) = password_mistake(&text) {
                let reported = format!("{} {}", mistake.message, mistake.remedy);
                prop_assert!(!reported.contains(&text[..4]) || "`ASCII`".contains(&text[..4]), "{}", reported);
            }
        }
    }
}
