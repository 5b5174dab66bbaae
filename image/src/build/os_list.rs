//! The list that Raspberry Pi Imager reads: without one it offers no settings for a foreign image.

use anyhow::{Context, Result};
use serde_json::json;

/// Facts of a finished image.
#[derive(Debug)]
pub struct ImageFacts<'a> {
    pub version: &'a str,
    /// The name of an image that is no release.
    pub variant: Option<&'a str>,
    /// The boards that it is for, as Imager names them.
    pub devices: &'a [&'a str],
    /// Where Imager finds the compressed file; the publisher fills in the address.
    pub url: &'a str,
    /// `YYYY-MM-DD`.
    pub date: &'a str,
    /// Bytes of the image, and of the compressed file.
    pub sizes: (u64, u64),
    /// SHA-256 of the image, and of the compressed file.
    pub hashes: (&'a str, &'a str),
}

/// `os-list.json`, for `rpi-imager --repo`.
///
/// # Errors
/// It could not be written as JSON.
pub fn list(image: &ImageFacts<'_>) -> Result<String> {
    let ImageFacts { version, variant, devices, url, date, sizes, hashes } = image;
    let variant = variant.map(|name| format!(" ({name})")).unwrap_or_default();
    let list = json!({"os_list": [{
        "name": format!("Config Weaver {version}{variant}"),
        "description": "k3s on a Raspberry Pi that kubectl reaches by its name",
        "url": url,
        "icon": "",
        "release_date": date,
        "extract_size": sizes.0,
        "extract_sha256": hashes.0,
        "image_download_size": sizes.1,
        "image_download_sha256": hashes.1,
        "devices": devices,
        // Imager writes its user's settings to user-data and network-config on the FAT.
        "init_format": "cloudinit-rpi",
    }]});
    serde_json::to_string_pretty(&list).map(|text| text + "\n").context("writing the list for Imager")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imager_finds_sizes_hashes_and_how_to_configure() {
        let image = ImageFacts {
            version: "0.1.0",
            variant: Some("TEST IMAGE"),
            devices: &["pi4-64bit"],
            url: "file:///x.img.xz",
            date: "2026-11-21",
            sizes: (9, 4),
            hashes: ("aa", "bb"),
        };
        let list: serde_json::Value = serde_json::from_str(&list(&image).unwrap()).unwrap();
        let entry = &list["os_list"][0];
        assert_eq!(entry["name"], "Config Weaver 0.1.0 (TEST IMAGE)", "no one takes it for a release");
        assert_eq!(entry["init_format"], "cloudinit-rpi");
        assert_eq!(entry["devices"], json!(["pi4-64bit"]));
        assert_eq!((&entry["extract_sha256"], &entry["image_download_sha256"]), (&json!("aa"), &json!("bb")));
        assert_eq!((&entry["extract_size"], &entry["image_download_size"]), (&json!(9), &json!(4)));
    }
}
