//! `[storage]`: the disk to which the data of k3s is moved.

use super::fault::{Faults, Mistake, shown};
use super::section::Section;
use crate::data_disk::name::{DiskName, REMEDY};

pub(super) fn read(section: &Section<'_>, faults: &mut Faults<'_>) -> Option<DiskName> {
    let data = section.text("data", faults)?;
    let name = data.value.parse();
    let name = name.map_err(|why| Mistake::new(format!("`data` {} {why}", shown(data.value)), REMEDY));
    faults.take(data.span.as_ref(), name)
}

#[cfg(test)]
mod tests {
    use crate::weaver_toml::parse;

    #[test]
    fn a_disk_is_named_by_what_stays() {
        let data = |text: &str| parse(format!("[storage]\n{text}").as_bytes());
        assert_eq!(data("").unwrap().config.data_disk, None);
        let read = data("data = \"LABEL=ssd\"").unwrap().config.data_disk;
        assert_eq!(read.map(|name| name.to_string()).as_deref(), Some("LABEL=ssd"));
        for (text, why) in [
            ("data = \"/dev/sda1\"", "`data` `/dev/sda1` is a path"),
            ("data = \"ssd\"", "`data` `ssd` does not begin with LABEL="),
            ("data = \"LABEL=\"", "names nothing"),
            ("data = \"LABEL=a b\"", "characters other than"),
            ("data = 3", "`data` is a number, not a string"),
            ("disk = \"LABEL=ssd\"", "unknown key"),
        ] {
            let faults = data(text).unwrap_err();
            assert!(faults.len() == 1 && faults[0].message.contains(why), "{text}: {faults:?}");
        }
    }
}
