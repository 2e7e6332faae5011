"""What a model may write to take over the page of someone who reads it."""

NASTY = (
    "<think></script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    "<svg onload=window.hacked=1>\u2028 {{ 7 * 7 }} &lt;b&gt;</think><answer><b>4</b></answer>"
)
