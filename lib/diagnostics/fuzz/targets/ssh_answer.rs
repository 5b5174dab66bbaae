//! What another machine answers to `weaver kubeconfig fetch`: what is made of it has the allowed keys only, and
//! a refusal has no control character and nothing of a credential.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weaver_diagnostics::kubeconfig_export::collision::collision;
use weaver_diagnostics::kubeconfig_export::document::Document;
use weaver_diagnostics::kubeconfig_export::{ExportRequest, SourceContext};
use weaver_diagnostics::san::ServingName;
use weaver_diagnostics::text_file::TextFile;

const SECRET: &str = "hunter2hunter2";

/// Keys that are never passed on.
const NEVER: [&str; 6] =
    ["exec:", "auth-provider:", "tokenFile:", "proxy-url:", "insecure-skip-tls-verify:", "as:"];

fuzz_target!(|text: &str| {
    // A credential is behind its key; a name is none.
    let text = text.replace(SECRET, "").replace("SECRET", SECRET);
    let is_value = text
        .match_indices(SECRET)
        .all(|(at, _)| text[..at].ends_with("token: ") || text[..at].ends_with("data: "));
    let file = TextFile::new("/answer", text);
    let host = ServingName::Dns("pi.lan".to_owned());
    let wanted = ExportRequest {
        host: &host,
        port: None,
        context: "pi",
        tls_server_name: None,
        insecure: false,
        token: None,
    };
    match SourceContext::read(&file).and_then(|source| source.export(&wanted)) {
        Err(error) => {
            let error = error.to_string();
            assert!(!error.contains(char::is_control), "{error:?}");
            assert!(!is_value || !error.contains(SECRET), "{error:?}");
        }
        Ok(document) => {
            let written = document.to_yaml();
            let keys = written.lines().map(|line| line.trim_start_matches([' ', '-']));
            assert!(!keys.into_iter().any(|line| NEVER.iter().any(|key| line.starts_with(key))), "{written}");
            let _ = Document::parse(&file)
                .map(|theirs| collision(&theirs, &document, false).map(|c| c.to_string()));
        }
    }
});
