//! Card images of a few files, and a kernel of a few instructions.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use weaver_image::boot::board::Board;
use weaver_image::boot::card::{Card, Edits};
use weaver_image::boot::firmware::{self, Played};
use weaver_image::boot::machine::Setup;
use weaver_image::boot::overlay::Overlay;
use weaver_image::boot::partition::boot_partition;
use weaver_image::boot::qemu::EmulatedHardware;

pub const MIB: u64 = 1 << 20;
pub const LIMIT: Duration = Duration::from_mins(1);

/// What the kernel does after it has printed its word.
#[derive(Clone, Copy)]
pub enum Then {
    PowerOff,
    Restart,
    Wait,
}

impl Then {
    /// A function of PSCI.
    fn number(self) -> u32 {
        match self {
            Self::PowerOff => 0x8400_0008,
            Self::Restart => 0x8400_0009,
            // None: the call fails and the kernel continues to wait.
            Self::Wait => 0x8400_00ff,
        }
    }
}

/// An arm64 Image that writes `word` to the board's UART, then does `then`.
pub fn kernel(word: &str, then: Then) -> Vec<u8> {
    let function = then.number();
    let code: [u32; 11] = [
        0xd2a1_2001,                              //     mov x1, #0x09000000
        0x1000_0142,                              //     adr x2, word
        0x3840_1443,                              // 1:  ldrb w3, [x2], #1
        0x3400_0063,                              //     cbz w3, 2f
        0xb900_0023,                              //     str w3, [x1]
        0x17ff_fffd,                              //     b 1b
        0x5280_0000 | ((function & 0xffff) << 5), // 2:  movz w0, #low
        0x72a0_0000 | ((function >> 16) << 5),    //     movk w0, #high, lsl 16
        0xd400_0002,                              //     hvc #0
        0xd503_207f,                              // 3:  wfi
        0x17ff_ffff,                              //     b 3b
    ];
    let mut image = vec![0; 64];
    image[0..4].copy_from_slice(&0x1400_0010u32.to_le_bytes()); // b 64
    image[16..24].copy_from_slice(&0x1000u64.to_le_bytes()); // size in memory
    image[56..60].copy_from_slice(b"ARMd");
    image.extend(code.iter().flat_map(|word| word.to_le_bytes()));
    image.extend(word.as_bytes());
    image.push(0);
    image
}

pub const CONFIG: &str = "arm_64bit=1\nupstream_kernel=1\nkernel=vmlinuz\ninitramfs initrd followkernel\n";
pub const CMDLINE: &str = "root=LABEL=weaver-root rw\n";

/// A card image: an MBR, a FAT partition of 8 MiB at 1 MiB, and 1 MiB unused.
pub struct CardImage {
    pub dir: tempfile::TempDir,
}

impl CardImage {
    pub fn empty() -> Self {
        let image = Self { dir: tempfile::tempdir().unwrap() };
        fs::File::create(image.path()).unwrap().set_len(10 * MIB).unwrap();
        let mut sector = vec![0; 512];
        sector[450] = 0x0c;
        sector[454..458].copy_from_slice(&2048u32.to_le_bytes());
        sector[458..462].copy_from_slice(&16384u32.to_le_bytes());
        sector[510..].copy_from_slice(&[0x55, 0xaa]);
        image.put(0, &sector);
        let fat = image.dir.path().join("fat");
        fs::File::create(&fat).unwrap().set_len(8 * MIB).unwrap();
        let made = Command::new("mformat")
            .env("MTOOLSRC", "/dev/null")
            .args(["-i"])
            .arg(&fat)
            .args(["-T", "16384", "-h", "16", "-s", "32", "::"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        image.put(MIB, &fs::read(&fat).unwrap());
        image
    }

    pub fn with(files: &[(&str, &[u8])]) -> Self {
        let image = Self::empty();
        for (name, content) in files {
            image.write(name, content);
        }
        image
    }

    /// A card that boots.
    pub fn good(kernel: &[u8]) -> Self {
        Self::with(&[
            ("config.txt", CONFIG.as_bytes()),
            ("cmdline.txt", CMDLINE.as_bytes()),
            ("vmlinuz", kernel),
            ("initrd", b"initramfs"),
            ("bcm2711-rpi-4-b.dtb", b"tree"),
        ])
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("card, with a comma.img")
    }

    pub fn put(&self, at: u64, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        fs::OpenOptions::new().write(true).open(self.path()).unwrap().write_all_at(bytes, at).unwrap();
    }

    /// By mtools alone, so that the harness is not tested with itself.
    pub fn write(&self, name: &str, content: &[u8]) {
        let file = self.dir.path().join("content");
        fs::write(&file, content).unwrap();
        let drive = format!("{}@@{MIB}", self.path().display());
        if let Some((dir, _)) = name.split_once('/') {
            let _ =
                Command::new("mmd").args(["-D", "s", "-i", &drive, &format!("::/{dir}")]).output().unwrap();
        }
        let made = Command::new("mcopy")
            .args(["-o", "-i", &drive])
            .arg(&file)
            .arg(format!("::/{name}"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    }

    pub fn play(&self, board: Board) -> anyhow::Result<(tempfile::TempDir, Played)> {
        self.play_start(board, false)
    }

    pub fn play_start(&self, board: Board, is_trial: bool) -> anyhow::Result<(tempfile::TempDir, Played)> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("card.qcow2");
        let overlay = Overlay::create(&path, &self.path(), 16 * MIB, boot_partition(&self.path())?)?;
        let fat = overlay.extract_fat(&dir.path().join("fat"))?;
        let played = firmware::play(&fat, board, &["extra=1".to_owned()], dir.path(), is_trial)?;
        Ok((dir, played))
    }

    pub fn card(&self, edits: &Edits) -> Arc<Card> {
        Arc::new(Card::new(&self.path(), 64 * MIB, edits).unwrap())
    }
}

pub fn setup() -> Setup {
    Setup {
        hardware: EmulatedHardware { memory_mib: 256, ..EmulatedHardware::default() },
        ..Setup::default()
    }
}

pub fn no_key() -> Edits {
    Edits { no_access: true, ..Edits::default() }
}

pub fn text(bytes: Option<Vec<u8>>) -> String {
    String::from_utf8(bytes.expect("no such file on the card")).unwrap()
}
