"""Make the bucket that LEAGUE_STORE_URL names, unless it is there. Credentials come as every AWS tool takes them."""

import os
import sys
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import BotoCoreError, ClientError

THERE = {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}


def main() -> None:
    """Make it, or end with status 1 and the reason."""
    bucket = urlsplit(os.environ["LEAGUE_STORE_URL"]).netloc
    client = boto3.client("s3", endpoint_url=os.environ["LEAGUE_STORE_ENDPOINT_URL"])
    try:
        client.create_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] not in THERE:
            sys.exit(f"bucket {bucket}: {error}")
    except BotoCoreError as error:
        sys.exit(f"bucket {bucket}: {error}")
    sys.stdout.write(f"bucket {bucket} is there\n")


if __name__ == "__main__":
    main()
