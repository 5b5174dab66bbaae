//! The kernel command line: what is mended is right afterwards, and nothing else of its parameters changes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weaver_diagnostics::cmdline_repair::{Need, remedy};
use weaver_diagnostics::config_txt::{
    self, Hardware, Included,
    cmdline_file::{CmdlineFile, cmdline_file},
};
use weaver_diagnostics::kept_cmdline::kept;
use weaver_diagnostics::kernel_cmdline::{lines, parameters, separated};

const FILE: &str = "/boot/firmware/cmdline.txt";

fuzz_target!(|text: &str| {
    let hardware =
        Hardware { model: Some("Raspberry Pi 4 Model B".to_owned()), serial: Some(1), ..Hardware::default() };
    // The same text as any file that it includes: to an end, and never a file outside of the partition.
    let config = config_txt::read(text, &hardware, |_| Included::Text(text.to_owned()));
    if let CmdlineFile::File { path, .. } =
        cmdline_file(&config, |_| vec!["kernel8.img".to_owned(), "x.dtb".to_owned()])
    {
        assert!(!path.split('/').any(|part| part == ".."), "{path:?}");
    }
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let _ = kept(text, rest, first);
    for need in [Need::Enable, Need::NoDisable] {
        let Some(remedy) = remedy(FILE, text, need) else { continue };
        let [change] = &remedy.changes[..] else { continue };
        assert_eq!(change.from.as_deref(), Some(text));
        assert!(
            weaver_diagnostics::cmdline_repair::remedy(FILE, &change.to, need).is_none(),
            "{:?}",
            change.to
        );
        // What has nothing to do with it stays, in its order, with missing spaces put in; a byte order mark is taken out.
        let foreign = |text: &str| -> Vec<String> {
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            let line = separated(lines(text)[0]);
            let parameters = parameters(&line, 1).into_iter().map(|parameter| parameter.text.to_owned());
            parameters.filter(|parameter| !parameter.contains("cgroup_")).collect()
        };
        // Below notes is another line.
        if !remedy.explain.contains("remove the notes") {
            assert_eq!(foreign(&change.to)[..foreign(text).len()], foreign(text)[..]);
        }
    }
});
