//! Codes of what the installer logs at `info` and above: the field `code`.

weaver_host::log_codes! {
    WEBHOOK_CERTIFICATE_MADE = "webhook-certificate-made": "the installer issued the webhook's certificate: \
        it was due, or missing";
    WEBHOOK_CA_MADE = "webhook-ca-made": "the installer created the webhook's CA, once; API servers trust \
        it by the CRDs";
}
