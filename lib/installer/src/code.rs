//! Codes of what the installer logs at `info` and above: the field `code`.

weaver_host::log_codes! {
    WEBHOOK_CERTIFICATE_MADE = "webhook-certificate-made": "by the installer; it was due, or missing";
    WEBHOOK_CA_MADE = "webhook-ca-made": "by the installer, once; API servers trust it by the definitions";
}
